"""Tools as gpt-oss is shown them. Texts marked so are what openai-harmony 0.0.8 writes, by

DeveloperContent.new().with_function_tools([ToolDescription.new(name, description, parameters)]).
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from junto.chat.harmony.typescript import MAX_DEPTH, Function, namespace, type_of

LIKE_OPENAI_HARMONY: dict[str, tuple[dict[str, Any], str]] = {
    "objects in objects and arrays": (
        {
            "a": {
                "type": "object",
                "properties": {
                    "b": {"type": "string", "description": "deep"},
                    "c": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"d": {"type": "integer", "default": 3}},
                            "required": ["d"],
                        },
                    },
                },
                "required": ["b"],
            }
        },
        "a?: {\n    // deep\n    b: string,\n    c?: {\n        d: number, // default: 3\n"
        "        }[],\n    },",
    ),
    "several types": (
        {
            "n": {"type": ["string", "null"], "description": "d"},
            "m": {"type": "string", "nullable": True, "default": None},
            "p": {"type": ["integer", "null"], "default": 5},
        },
        "// d\nn?: string | null,\nm?: string | null, // default: null\n"
        "p?: number | null, // default: 5",
    ),
    "alternatives": (
        {
            "x": {
                "oneOf": [
                    {"type": "string", "description": "S", "default": "q"},
                    {"type": "object", "properties": {"k": {"type": "string"}}},
                ],
                "description": "D",
                "default": "z",
            }
        },
        '// D\n// default: "z"\nx?:\n | string // S default: "q"\n | {\n   k?: string,\n   }\n,',
    ),
    "titles and examples": (
        {
            "t": {
                "type": "string",
                "title": "Tit",
                "description": "De",
                "examples": ["one", 2, "three"],
            }
        },
        '// Tit\n//\n// De\n// Examples:\n// - "one"\n// - "three"\nt?: string,',
    ),
    "defaults": (
        {
            "h": {"type": "string", "enum": ["q"], "default": "q"},
            "h2": {"type": "string", "default": "q"},
            "bo": {"type": "boolean", "default": True},
            "ob": {"type": "object", "default": {"a": 1, "b": [1, "x"]}},
            "fl": {"type": "number", "default": 1.0},
        },
        'h?: "q", // default: q\nh2?: string, // default: "q"\nbo?: boolean, // default: true\n'
        'ob?: {\n    }, // default: {"a":1,"b":[1,"x"]}\nfl?: number, // default: 1.0',
    ),
    "little is known": (
        {
            "u": {"$ref": "#/$defs/U"},
            "v": {"type": "array"},
            "x": {},
            "y": True,
            "z": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        },
        "u?: any,\nv?: Array<any>,\nx?: any,\ny?: any,\nz?: number[][],",
    ),
}


@pytest.mark.parametrize("name", LIKE_OPENAI_HARMONY)
def test_properties_as_openai_harmony_writes_them(name: str) -> None:
    properties, expected = LIKE_OPENAI_HARMONY[name]
    assert type_of({"type": "object", "properties": properties}) == f"{{\n{expected}\n}}"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (None, "()"),
        ({}, "(_: any)"),
        ({"type": "object", "properties": {}}, "(_: {\n})"),
        ({"type": "string"}, "(_: string)"),
        ({"allOf": [{"type": "object"}]}, "(_: any)"),
    ],
)
def test_arguments_as_openai_harmony_writes_them(parameters: Any, expected: str) -> None:
    text = namespace("functions", [Function("f", "line 1\nline 2\n", parameters)])
    assert text == (
        "## functions\n\nnamespace functions {\n\n// line 1\n// line 2\n"
        f"type f = {expected} => any;\n\n}} // namespace functions"
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"type": "string", "enum": ['a"b\n']}, '"a\\"b\\n"'),
        ({"const": "x"}, '"x"'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"type": "array", "items": {"type": "string", "enum": ["m", "n"]}}, '("m" | "n")[]'),
        ({"type": "null"}, "null"),
        ({"type": ["array", "object"]}, "Array<any> | {\n}"),
        (
            {"type": "object", "properties": {"a b": {}, "c\nd": {}}},
            '{\n"a b"?: any,\n"c\\nd"?: any,\n}',
        ),
        (
            {"type": "object", "properties": {"a": {"description": "b\nc"}}},
            "{\n// b\n// c\na?: any,\n}",
        ),
        ({"type": 7}, "any"),
        ({"type": []}, "any"),
        ([], "any"),
    ],
)
def test_more_than_openai_harmony_knows(schema: Any, expected: str) -> None:
    assert type_of(schema) == expected


def test_depth_ends() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(10_000):
        schema = {"type": "array", "items": schema}
    assert type_of(schema) == "any" + "[]" * MAX_DEPTH


KEYS = st.sampled_from(
    [
        *("type", "properties", "items", "enum", "const", "oneOf", "anyOf", "required", "default"),
        *("description", "title", "examples", "nullable", "$ref", "a", "b\n}"),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from(["object", "array", "string", "a\n}) => any;"])
)
SCHEMAS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5)
)


@given(SCHEMAS)
def test_any_schema_has_a_type_whose_lines_are_its_own(schema: Any) -> None:
    lines = type_of(schema).split("\n")
    assert not any(line.strip().startswith("}) => any;") for line in lines)
