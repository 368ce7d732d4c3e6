"""What a tool's JSON schema says about its parameters: the types that a value may have.

Schemas come from clients and may be anything; what is not understood says nothing, and nothing
here raises.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from junto.chat.dialogue import Tool

Types = frozenset[str]
"""Names of JSON's types; "any" where a schema allows everything."""

ANY: Types = frozenset({"any"})
_NAMES = ("string", "integer", "number", "boolean", "null", "array", "object")
_MAX_DEPTH = 8  # of references, which may lead in circles


def functions(tools: Iterable[Tool]) -> dict[str, Mapping[str, Any]]:
    """Function name -> schema of its parameters, of tools as OpenAI's APIs write them."""
    found = {}
    for tool in tools:
        inner = tool.get("function", tool)
        if isinstance(inner, Mapping) and isinstance(inner.get("name"), str):
            parameters = inner.get("parameters")
            found[inner["name"]] = parameters if isinstance(parameters, Mapping) else {}
    return found


def parameter_types(parameters: Mapping[str, Any], name: str) -> Types | None:
    """Types that the schema allows for a parameter; None where it does not know the parameter."""
    schema = _mapping(parameters.get("properties")).get(name)
    if schema is None:
        schema = parameters.get("additionalProperties")
    if not isinstance(schema, Mapping):
        return None
    return frozenset(_types(schema, parameters, 0)) or ANY


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _types(schema: object, root: Mapping[str, Any], depth: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return
    declared = schema.get("type")
    for name in [declared] if isinstance(declared, str) else _list(declared):
        yield name if name in _NAMES else "any"
    if schema.get("nullable") is True:
        yield "null"
    if declared is None:
        for value in [
            *_list(schema.get("enum")),
            *([schema["const"]] if "const" in schema else []),
        ]:
            yield _type_of(value)
        for key in ("anyOf", "oneOf", "allOf"):
            for inner in _list(schema.get(key)):
                yield from _types(inner, root, depth + 1)
        yield from _types(_referred(schema.get("$ref"), root), root, depth + 1)


def _referred(reference: object, root: Mapping[str, Any]) -> object:
    """The part of the schema that "#/$defs/name" points to, or None."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    part: object = root
    for step in reference[2:].split("/"):
        part = _mapping(part).get(step)
    return part


def _type_of(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case list() | tuple():
            return "array"
        case _:
            return "object"
