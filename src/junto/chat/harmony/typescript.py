"""JSON schemas as the TypeScript in which gpt-oss was shown its tools.

Total: whatever a schema holds, some type comes out, `any` where nothing better is known ($ref and
the like). No text of a schema leaves its line: comments are cut at line ends, names and values that
are no plain words are quoted. Knows no tokens.

Source: the forms that openai-harmony 0.0.8 writes; unlike it, a union inside a type stays on one
line and in brackets, a description is written once, and `enum`, `const` and `anyOf` need no `type`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

MAX_DEPTH = 16
_STEP = "    "
_NAMES = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean"}
_PLAIN_KEY = re.compile(r"[^\W\d][\w$.\-]*")


@dataclass(frozen=True, slots=True)
class Function:
    """A tool: its name, what it is for, and the JSON schema of its arguments, if it takes any."""

    name: str
    description: str
    parameters: Mapping[str, Any] | None


def comment(text: object, indent: str = "") -> Iterator[str]:
    """The lines of a text as comments; none for what is no text."""
    if isinstance(text, str) and text:
        yield from (f"{indent}// {line}" for line in text.removesuffix("\n").splitlines())


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):
        return "any"


def _default(schema: Mapping[str, Any]) -> str:
    """The comment that names a default; a choice among words goes without quotes."""
    if "default" not in schema:
        return ""
    value = schema["default"]
    is_word = isinstance(value, str) and value.isprintable() and _is_list(schema.get("enum"))
    return f"default: {value if is_word else _json(value)}"


def _variants(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives of oneOf or anyOf, where there are any."""
    for name in ("oneOf", "anyOf"):
        found = schema.get(name)
        if _is_list(found) and found:
            return [variant if isinstance(variant, Mapping) else {} for variant in found]
    return []


def _union(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _named_type(schema: Mapping[str, Any], name: object, indent: str, depth: int) -> str:
    if name == "object":
        return _object(schema, indent, depth)
    if name == "array":
        return _array(schema, indent, depth)
    if name == "null":
        return "null"
    return _NAMES.get(name, "any") if isinstance(name, str) else "any"


def type_of(schema: object, indent: str = "", depth: int = 0) -> str:
    """The type of one schema; only objects take several lines, indented by `indent`."""
    if not isinstance(schema, Mapping) or depth >= MAX_DEPTH:
        return "any"
    nullable = ["null"] if schema.get("nullable") is True else []
    if _is_list(schema.get("enum")) and schema["enum"]:
        return _union([*map(_json, schema["enum"]), *nullable])
    if "const" in schema:
        return _json(schema["const"])
    if variants := _variants(schema):
        return _union([*(type_of(v, indent, depth + 1) for v in variants), *nullable])
    name = schema.get("type")
    names = name if _is_list(name) and name else [name]
    return _union([*(_named_type(schema, n, indent, depth + 1) for n in names), *nullable])


def _array(schema: Mapping[str, Any], indent: str, depth: int) -> str:
    items = schema.get("items")
    if not isinstance(items, Mapping):
        return "Array<any>"
    inner = type_of(items, indent, depth)
    return f"({inner})[]" if " | " in inner and not inner.startswith("{") else f"{inner}[]"


def _object(schema: Mapping[str, Any], indent: str, depth: int) -> str:
    properties = schema.get("properties")
    lines = ["{"]
    if isinstance(properties, Mapping):
        required = schema.get("required")
        needed = set(map(str, required)) if _is_list(required) else set()
        for key, inner in properties.items():
            fields = inner if isinstance(inner, Mapping) else {}
            name = _key(str(key)) + ("" if str(key) in needed else "?")
            lines += _property(name, fields, indent, depth)
    return "\n".join([*lines, indent + "}"])


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _json(key)


def _property(name: str, schema: Mapping[str, Any], indent: str, depth: int) -> Iterator[str]:
    title, examples = schema.get("title"), schema.get("examples")
    if isinstance(title, str) and title:
        yield from (*comment(title, indent), f"{indent}//")
    yield from comment(schema.get("description"), indent)
    if _is_list(examples) and examples:
        yield f"{indent}// Examples:"
        yield from (f"{indent}// - {_json(e)}" for e in examples if isinstance(e, str))
    default = _default(schema)
    if _variants(schema):
        yield from [f"{indent}// {default}"] if default else []
        yield f"{indent}{name}:"
        yield from _variant_lines(schema, indent, depth)
        yield f"{indent},"
    else:
        kind = type_of(schema, indent + _STEP, depth)
        yield f"{indent}{name}: {kind}," + (f" // {default}" if default else "")


def _variant_lines(schema: Mapping[str, Any], indent: str, depth: int) -> Iterator[str]:
    for variant in _variants(schema):
        description = variant.get("description")
        words = " ".join(description.split()) if isinstance(description, str) else ""
        notes = " ".join(filter(None, (words, _default(variant))))
        kind = type_of(variant, indent + "   ", depth + 1)
        yield f"{indent} | {kind}" + (f" // {notes}" if notes else "")


def _function(function: Function) -> str:
    parameters = function.parameters
    given = "" if parameters is None else f"_: {type_of(parameters)}"
    declared = f"type {function.name} = ({given}) => any;"
    return "\n".join([*comment(function.description), declared])


def namespace(name: str, functions: Sequence[Function], description: str = "") -> str:
    """A section that declares functions under a name; without any, the description alone."""
    title = f"## {name}\n\n"
    if not functions:
        return title + description
    about = "".join(f"{line}\n" for line in comment(description))
    declared = "".join(f"{_function(function)}\n\n" for function in functions)
    return f"{title}{about}namespace {name} {{\n\n{declared}}} // namespace {name}"
