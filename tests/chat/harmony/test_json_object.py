"""Arguments from models: JSON objects whatever comes in, and untouched where nothing is wrong."""

import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from junto.chat.harmony.json_object import MAX_DEPTH, JsonObject


def mended(text: str, n_chars: int = 1) -> tuple[str, int]:
    """The object of a text that comes in pieces, and how much was mended."""
    json_object = JsonObject()
    pieces = [text[i : i + n_chars] for i in range(0, len(text), n_chars)]
    out = "".join(json_object.feed(piece) for piece in pieces) + json_object.finish()
    return out, json_object.n_repair


def strict(text: str) -> Any:
    """The value of a JSON text, by the letter: no NaN, no infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


@given(OBJECTS, st.sampled_from([None, 1, "\t"]), st.booleans(), st.integers(1, 7))
def test_a_sound_object_is_not_touched(
    value: dict[str, Any], indent: Any, ascii_only: bool, n_chars: int
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert mended(text, n_chars) == (text, 0)


ODD = st.lists(
    st.sampled_from(
        [*"{}[]:,\"'\\ \n", "null", "True", "1.", "-", "a", "é", "\\u00", "\\q", "```json", '{"a":']
    ),
    max_size=24,
).map("".join)


@given(ODD | st.text(), st.integers(1, 7))
@example('{"a\\\n', 1)
@example('{"\\u12"', 1)
def test_anything_becomes_an_object_however_it_is_cut(text: str, n_chars: int) -> None:
    whole, n_repair = mended(text, len(text) or 1)
    assert isinstance(strict(whole), dict)
    assert mended(text, n_chars) == (whole, n_repair)
    assert n_repair > 0 or text == whole


@given(OBJECTS.filter(bool), st.data())
def test_a_cut_object_keeps_what_came_whole(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(1, len(text) - 1))
    out, n_repair = mended(text[:cut])
    assert list(strict(out)) == list(value)[: len(strict(out))]
    assert n_repair == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "{}"),
        (" \n", "{}"),
        ('{"a": "b', '{"a": "b"}'),
        ('{"a": "b\\', '{"a": "b"}'),
        ('{"a": "b\\u00', '{"a": "b"}'),
        ('{"a": 1, "b', '{"a": 1}'),
        ('{"a": 1, "b":', '{"a": 1}'),
        ('{"a": 12.', '{"a": 12}'),
        ('{"a": -', '{"a": null}'),
        ('{"a": tr', '{"a": true}'),
        ('{"a": [1, {"b": 2', '{"a": [1, {"b": 2}]}'),
        ('{"a": 1,}', '{"a": 1}'),
        ('{"a": [1,]}', '{"a": [1]}'),
        ('{"a": 1,, "b": 2}', '{"a": 1, "b": 2}'),
        ('{"a": 1 "b": 2}', '{"a": 1 ,"b": 2}'),
        ('{"a" 1}', '{"a" :1}'),
        ('{"a":}', '{"a":null}'),
        ('{"a": [1}', '{"a": [1]}'),
        ('{"a": 1]}', '{"a": 1}'),
        ("{'a': 'it\\'s \"b\"'}", '{"a": "it\'s \\"b\\""}'),
        ("{a: True, b: None, c: word}", '{"a": true, "b": null, "c": "word"}'),
        ('{"a": 01}', '{"a": "01"}'),
        ('{"a": NaN}', '{"a": null}'),
        ('{"a": "x\ny"}', '{"a": "x\\ny"}'),
        ('{"a": "\\d"}', '{"a": "\\\\d"}'),
        ('{"a": 1} and more {"b": "', '{"a": 1}  '),
        ("[1, 2]", '{"input": [1, 2]}'),
        ("Paris, France", '{"input": "Paris, France"}'),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ("NaN", '{"input": "NaN"}'),
    ],
)
def test_mended(text: str, expected: str) -> None:
    out, n_repair = mended(text)
    assert out.rstrip(" ") == expected.rstrip(" ")
    strict(out)
    assert n_repair > 0


def test_values_stream_and_keys_wait_for_them() -> None:
    json_object = JsonObject()
    told = [json_object.feed(text) for text in ('{"ci', 'ty": "Pa', 'ris", ', '"n": 1', "2}")]
    assert told == ["{", '"city": "Pa', 'ris"', "", ', "n": 12}']


@pytest.mark.parametrize("text", ['{"a":' * 5000, '{"a":' + "[" * 5000, "[" * 5000, "9" * 9999])
def test_depth_and_length_stay_within_what_json_readers_take(text: str) -> None:
    for whole in (text, '{"a": ' + text):
        out, _ = mended(whole, 100)
        assert isinstance(strict(out), dict)
        assert out.count("[") + out.count("{") <= MAX_DEPTH + 1 or '"input"' in out


@pytest.mark.parametrize("text", [" ", "{", "x{", "```", "\\", '{"a":"', '{"a":,', "]", "a", '"'])
def test_cost_grows_with_length_and_not_with_its_square(text: str) -> None:
    def cost(n_chars: int) -> float:
        start = time.process_time()
        mended(text * (n_chars // len(text)), 1000)
        return time.process_time() - start

    short, long = min(cost(20_000) for _ in range(3)), cost(200_000)
    assert long < 40 * short + 0.05
