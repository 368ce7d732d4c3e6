"""Values by their schema, and the JSON that models write."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from junto.chat.qwen import json_text
from junto.chat.qwen.schema import ANY, functions, parameter_types
from junto.chat.qwen.values import Value, typed

S, INT, NUM, B, Z, A, OBJ = "string", "integer", "number", "boolean", "null", "array", "object"


@pytest.mark.parametrize(
    ("text", "types", "value"),
    [
        ("5", None, '"5"'),
        ("5", {S}, '"5"'),
        ("null", {S}, '"null"'),
        ("5", {INT}, "5"),
        (" -5\n", {INT}, "-5"),
        ("5.0", {INT}, "5.0"),
        ("1.50", {NUM}, "1.50"),
        ("1e3", {NUM}, "1e3"),
        ("5", {INT, S}, "5"),
        ("5a", {INT, S}, '"5a"'),
        ("05", {INT, S}, '"05"'),
        ("true", {B}, "true"),
        ("False", {B}, "false"),
        ("null", {S, Z}, "null"),
        ("None", {S, Z}, "null"),
        ("none of it", {S, Z}, '"none of it"'),
        ("[1, 2]", {A}, "[1, 2]"),
        ('{"a": 1.50}', {OBJ}, '{"a": 1.50}'),
        ("[1", {A, S}, '"[1"'),
        ("5", ANY, "5"),
        ('"5"', ANY, '"5"'),
        ("true", ANY, "true"),
        ("True", ANY, '"True"'),
        ("[1", ANY, '"[1"'),
        ("word", ANY, '"word"'),
        ("NaN", ANY, '"NaN"'),
    ],
)
def test_text_becomes_what_the_schema_allows(text: str, types: set[str], value: str) -> None:
    assert typed(text, None if types is None else frozenset(types)) == Value(value)


@pytest.mark.parametrize(
    ("text", "types", "value"),
    [
        ("five", {INT}, '"five"'),
        ("", {INT}, '""'),
        ("+5", {INT}, "5"),
        (".5", {NUM}, "0.5"),
        ("5.", {NUM}, "5.0"),
        ("9" * 5000, {INT}, '"' + "9" * 5000 + '"'),
        ("nan", {NUM}, '"nan"'),
        ("yes", {B}, '"yes"'),
        ("[1, 2", {A}, "[1, 2]"),
        ("['a', True]", {A}, '["a", true]'),
        ("{'a': (1,)}", {OBJ}, '{"a": [1]}'),
        ("[1, x]", {A}, '"[1, x]"'),
        ("[" * 100_000, {A}, None),
    ],
)
def test_other_text_is_mended_or_stays_text(text: str, types: set[str], value: str | None) -> None:
    found = typed(text, frozenset(types))
    assert found == Value(value or json.dumps(text), mended=True)


@given(st.text(), st.frozensets(st.sampled_from([S, INT, NUM, B, Z, A, OBJ, "any"]), min_size=1))
def test_any_text_has_a_value(text: str, types: frozenset[str]) -> None:
    json.loads(typed(text, types).json)


SCHEMA: dict[str, Any] = {
    "properties": {
        "plain": {"type": "integer"},
        "several": {"type": ["string", "null"]},
        "union": {"anyOf": [{"type": "array"}, {"oneOf": [{"type": "null"}]}]},
        "choice": {"enum": ["a", 1, None, 2.5, True, [], {}]},
        "constant": {"const": "a"},
        "nullable": {"type": "string", "nullable": True},
        "named": {"$ref": "#/$defs/name"},
        "circle": {"$ref": "#/$defs/circle"},
        "open": {"description": "anything"},
        "strange": {"type": "color"},
        "broken": 5,
    },
    "$defs": {"name": {"type": "boolean"}, "circle": {"anyOf": [{"$ref": "#/$defs/circle"}]}},
}


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("plain", {INT}),
        ("several", {S, Z}),
        ("union", {A, Z}),
        ("choice", {S, INT, Z, NUM, B, A, OBJ}),
        ("constant", {S}),
        ("nullable", {S, Z}),
        ("named", {B}),
        ("circle", ANY),
        ("open", ANY),
        ("strange", ANY),
        ("broken", None),
        ("missing", None),
    ],
)
def test_types_of_a_parameter(name: str, types: set[str] | None) -> None:
    assert parameter_types(SCHEMA, name) == (None if types is None else frozenset(types))


def test_further_parameters_may_have_a_type() -> None:
    assert parameter_types({"additionalProperties": {"type": "integer"}}, "x") == frozenset({INT})
    assert parameter_types({"additionalProperties": True, "properties": 5}, "x") is None


def test_functions_are_found_in_both_spellings() -> None:
    nested = {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}
    flat = {"type": "function", "name": "b", "parameters": None}
    broken = [{"function": 5}, {"name": 3}, {}]
    assert functions([nested, flat, *broken]) == {"a": {"type": "object"}, "b": {}}


JSON: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS: Any = st.dictionaries(st.text(max_size=4), JSON, max_size=4)


@given(OBJECTS, st.booleans())
def test_members_keep_their_spelling(value: dict[str, Any], spaced: bool) -> None:
    text = json.dumps(value, indent=1 if spaced else None, ensure_ascii=spaced)
    found = json_text.items(text)
    assert {key: member for key, (member, _) in found.items()} == value
    for member, spelling in found.values():
        assert spelling in text
        assert json.loads(spelling) == member


@given(OBJECTS, st.data())
def test_an_object_cut_anywhere_is_the_beginning_of_the_whole(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    n = data.draw(st.integers(1, len(text)))
    found = json.loads(json_text.mended(text[:n]))
    assert isinstance(found, dict)
    assert list(found) == list(value)[: len(found)] or n < len(text)
    if n == len(text):
        assert found == value


@pytest.mark.parametrize(
    "text", ["", "a", "{a: 1}", "[1, x]", "{'a': 1}", "[" * 100_000, "[NaN]", "]", '{"a" 1}', "{a"]
)
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_text.mended(text)


def repr_type(value: object) -> str:
    """The name of a case: numbers of 5,000 digits have no repr."""
    return type(value).__name__


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, {(1, 2): 3}, 10**5000], ids=repr_type)
def test_what_has_no_json_is_a_value_error(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        json_text.dumps(value)


def test_lone_surrogates_are_escaped() -> None:
    assert json_text.dumps("a\ud800é") == '"a\\ud800é"'
