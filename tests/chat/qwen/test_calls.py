"""Tool calls with everything that models get wrong, each counted, none of it an error."""

import json
from typing import Any

import pytest

from junto.chat.dialogue import Turn
from junto.chat.qwen import Qwen
from junto.chat.tokenizer import Tokenizer
from tests.chat.qwen.answers import TOOLS, Read, by_bytes, read, tool, xml_call

Calls = list[tuple[str, Any]]
SILENT = Turn(enable_thinking=False, tools=TOOLS)
PARIS: Calls = [("weather", {"city": "Paris"})]
WHOLE = xml_call("weather", {"city": "Paris"})
BARE = WHOLE.replace("<tool_call>\n", "").replace("\n</tool_call>", "")
JSON = '{"name": "weather", "arguments": {"city": "Paris"}}'


def answer(qwen: Qwen, tokenizer: Tokenizer, text: str, turn: Turn = SILENT) -> Read:
    """Read in two ways that must agree: usual tokens, and one token for each byte."""
    whole = read(qwen, tokenizer.encode(text, special=True), turn)
    assert read(qwen, by_bytes(tokenizer, text), turn) == whole
    return whole


WELL_FORMED: dict[str, tuple[str, Calls, str]] = {
    "one": (WHOLE, PARIS, ""),
    "text before": ("Let me look.\n\n" + WHOLE, PARIS, "Let me look."),
    "several": (f"{WHOLE}\n{WHOLE}", PARIS * 2, ""),
    "typed": (xml_call("weather", {"days": "3"}), [("weather", {"days": 3})], ""),
    "a string like a number": (
        xml_call("weather", {"city": "3"}),
        [("weather", {"city": "3"})],
        "",
    ),
    "no arguments": (xml_call("weather", {}), [("weather", {})], ""),
    "empty value": (xml_call("weather", {"city": ""}), [("weather", {"city": ""})], ""),
    "newlines of the value": (
        xml_call("write", {"text": "\n a\n\n"}),
        [("write", {"text": "\n a\n\n"})],
        "",
    ),
    "unknown function": (xml_call("fly", {"to": "3"}), [("fly", {"to": "3"})], ""),
    "unknown parameter": (xml_call("weather", {"x": "3"}), [("weather", {"x": "3"})], ""),
    "letters to escape": (
        xml_call("write", {"text": '"\\\t\u0001é👋'}),
        [("write", {"text": '"\\\t\u0001é👋'})],
        "",
    ),
    "JSON": (f"<tool_call>\n{JSON}\n</tool_call>", PARIS, ""),
    "two in JSON": (f"<tool_call>\n{JSON}\n</tool_call>\n" * 2, PARIS * 2, ""),
    "JSON with the name last": (
        '<tool_call>{"arguments": {"city": "a } b"}, "name": "weather"}</tool_call>',
        [("weather", {"city": "a } b"})],
        "",
    ),
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_a_call_is_read_without_repair(tiny_qwen: Qwen, tiny: Tokenizer, name: str) -> None:
    text, calls, content = WELL_FORMED[name]
    expected = Read("", content, calls, "tool_calls", 0)
    assert answer(tiny_qwen, tiny, text) == expected


MENDED: dict[str, tuple[str, Calls, str]] = {
    "no </parameter>": (WHOLE.replace("</parameter>\n", ""), PARIS, ""),
    "no </parameter> before the next": (
        xml_call("weather", {"city": "Paris", "days": "2"}).replace("</parameter>\n", "", 1),
        [("weather", {"city": "Paris", "days": 2})],
        "",
    ),
    "no </function>": (WHOLE.replace("</function>\n", ""), PARIS, ""),
    "no </tool_call>": (WHOLE.replace("\n</tool_call>", ""), PARIS, ""),
    "no </tool_call> before the next": (
        WHOLE.replace("</tool_call>", WHOLE),
        PARIS * 2,
        "",
    ),
    "no </tool_call> before text": (WHOLE.replace("</tool_call>", "Wait."), PARIS, "Wait."),
    "no closing tag but the last": (
        WHOLE.replace("</parameter>\n</function>\n", ""),
        PARIS,
        "",
    ),
    "no closing tag": (WHOLE.partition("\n</parameter>")[0], PARIS, ""),
    "no closing tag before the next": (
        WHOLE.partition("</parameter>")[0] + WHOLE,
        PARIS * 2,
        "",
    ),
    "no <tool_call>": (BARE + "\n</tool_call>", PARIS, ""),
    "no <tool_call> behind text": (f"Now:\n{BARE}\nDone.", PARIS, "Now:\n\nDone."),
    "<tool_call> twice": ("<tool_call>\n" + WHOLE, PARIS, "<tool_call>"),
    "</tool_call> twice": (WHOLE + "\n</tool_call>", PARIS, ""),
    "two functions in one call": (
        WHOLE.replace("\n</tool_call>", f"\n{BARE}\n</tool_call>"),
        PARIS * 2,
        "",
    ),
    "text before the first parameter": (
        WHOLE.replace("<parameter", "oh <parameter"),
        PARIS,
        "oh ",
    ),
    "the same parameter twice": (
        WHOLE.replace("</function>", "<parameter=city>\nRome\n</parameter>\n</function>"),
        PARIS,
        "",
    ),
    "no > behind the name": (WHOLE.replace("weather>", "weather"), PARIS, ""),
    "arguments in JSON": (
        '<tool_call>\n<function=weather>\n{"city": "Paris"}\n</function>\n</tool_call>',
        PARIS,
        "",
    ),
    "a number in words": (
        xml_call("weather", {"days": "three"}),
        [("weather", {"days": "three"})],
        "",
    ),
    "JSON without an end": (f"<tool_call>\n{JSON[:-2]}", PARIS, ""),
    "JSON with one bracket too many": (f"<tool_call>{JSON}}}\n</tool_call>", PARIS, ""),
    "JSON cut within a value": (
        '<tool_call>{"name": "weather", "arguments": {"city": "Par',
        [("weather", {"city": "Par"})],
        "",
    ),
    "JSON within a string": (
        '<tool_call>{"name": "weather", "arguments": "{\\"city\\": \\"Paris\\"}"}</tool_call>x',
        PARIS,
        "x",
    ),
    "raw newlines in JSON": (
        '<tool_call>{"name": "write", "arguments": {"text": "a\nb"}}</tool_call>',
        [("write", {"text": "a\nb"})],
        "",
    ),
    "no arguments in JSON": ('<tool_call>{"name": "weather"}</tool_call>', [("weather", {})], ""),
}


@pytest.mark.parametrize("name", MENDED)
def test_a_broken_call_is_mended(tiny_qwen: Qwen, tiny: Tokenizer, name: str) -> None:
    text, calls, content = MENDED[name]
    found = answer(tiny_qwen, tiny, text)
    assert (found.calls, found.content) == (calls, content)
    assert found.reason == "tool_calls"
    assert (found.n_repair > 0) == (name != "JSON within a string")


NO_CALLS = {
    "words behind the tag": "<tool_call>weather(Paris)</tool_call>",
    "the tag in a sentence": "Use the <tool_call> tag, then </tool_call>.",
    "JSON without a name": '<tool_call>{"city": "Paris"}</tool_call>',
    "broken JSON": "<tool_call>{city Paris}</tool_call>",
    "a function without a name": "<tool_call><function=></tool_call>",
    "JSON whose name is cut": '<tool_call>{"name": "weat',
    "a function in a sentence": "Say <function=weather>.",
    "an unknown function without tag": "<function=fly>\n</function>",
    "a function in fenced code": f"```xml\n{BARE}\n```",
}


@pytest.mark.parametrize("name", NO_CALLS)
def test_what_is_no_call_stays_text(tiny_qwen: Qwen, tiny: Tokenizer, name: str) -> None:
    text = NO_CALLS[name]
    found = answer(tiny_qwen, tiny, text)
    assert (found.content, found.calls, found.reason) == (text, [], "stop")


def test_without_tools_only_the_token_begins_a_call(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    turn = Turn(enable_thinking=False)
    assert answer(tiny_qwen, tiny, BARE, turn).content == BARE
    call = xml_call("weather", {"days": "3"})
    assert answer(tiny_qwen, tiny, call, turn).calls == [("weather", {"days": "3"})]


def test_a_spelled_tag_begins_a_call_of_a_tool_only(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    for name, n_call in (("weather", 1), ("fly", 0)):
        text = xml_call(name, {"city": "Paris"})
        ids = list(text.encode())  # every tag spelled, byte by byte
        found = read(tiny_qwen, ids, SILENT)
        assert len(found.calls) == n_call
        assert found.content == (text if n_call == 0 else "")
        json_ids = list(f'<tool_call>\n{{"name": "{name}"}}\n</tool_call>'.encode())
        assert len(read(tiny_qwen, json_ids, SILENT).calls) == n_call


TRICKY_VALUES = {
    "closing tag of a parameter": "a</parameter>b",
    "on a line of its own": "a\n</parameter>\nb",
    "at its end": "a\n</parameter>",
    "closing tag of a function": "a\n</function>\nb",
    "both": "print('</parameter></function>')\n",
    "closing tag of a call": "a </tool_call> b",
    "opening tag of a call": "x = '<tool_call>'",
    "opening tag of a function": "\n<function=weather>\n",
    "a parameter that the function has not": "a\n<parameter=zip>\nb",
    "a parameter that it has, within a line": "a <parameter=path> b",
    "an example of a whole call": "Write:\n" + xml_call("example", {"a": "b"}) + "\nlike this.",
    "thinking": "<think>a</think>",
    "the beginning of a tag": "a\n</para",
    "blanks": "  a  \n\n",
}


@pytest.mark.parametrize("name", TRICKY_VALUES)
def test_values_hold_any_text(tiny_qwen: Qwen, tiny: Tokenizer, name: str) -> None:
    arguments = {"text": TRICKY_VALUES[name], "path": "p"}
    found = answer(tiny_qwen, tiny, "See:\n" + xml_call("write", arguments))
    assert found == Read("", "See:", [("write", arguments)], "tool_calls", 0)


@pytest.mark.parametrize("name", TRICKY_VALUES)
def test_so_do_values_in_json(real_qwen: Qwen, qwen35: Tokenizer, name: str) -> None:
    arguments = {"text": TRICKY_VALUES[name]}
    call = json.dumps({"name": "write", "arguments": arguments})
    found = read(
        real_qwen, qwen35.encode(f"<tool_call>\n{call}\n</tool_call>", special=True), SILENT
    )
    assert found == Read("", "", [("write", arguments)], "tool_calls", 0)


def test_a_call_cut_anywhere_is_valid_and_shows_no_markup(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    """A cut value is a beginning of the whole one; nothing of the markup is in it."""
    text = xml_call("write", {"path": "a.txt", "text": "one\ntwo"})
    ids = by_bytes(tiny, text)
    for n in range(len(ids)):
        found = read(tiny_qwen, ids[:n], SILENT, "length")
        assert found.reason == "length"
        assert len(found.calls) == (n > len("\n<function=write>"))
        for _, arguments in found.calls:
            for key, value in arguments.items():
                assert {"path": "a.txt", "text": "one\ntwo"}[key].startswith(value)
        assert not found.content


def test_a_call_within_reasoning_counts_and_reasoning_goes_on(
    tiny_qwen: Qwen, tiny: Tokenizer
) -> None:
    turn = Turn(enable_thinking=True, tools=TOOLS)
    found = answer(tiny_qwen, tiny, f"Hm.\n{WHOLE}\nYes.\n</think>\n\nDone.", turn)
    assert (found.calls, found.content) == (PARIS, "Done.")
    assert found.reasoning == "Hm.\n\nYes."


def test_the_schema_decides_types(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    types = {
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "map": {"$ref": "#/$defs/map"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "any": {},
    }
    function = tool("f", **types)
    function["function"]["parameters"]["$defs"] = {"map": {"type": "object"}}
    given = {
        "flag": "True",
        "list": "[1, 2]",
        "map": '{"a": [null]}',
        "maybe": "None",
        "either": "x1",
        "any": "[1.50]",
    }
    found = answer(
        tiny_qwen, tiny, xml_call("f", given), Turn(enable_thinking=False, tools=(function,))
    )
    assert found.n_repair == 0
    assert found.calls == [
        (
            "f",
            {
                "flag": True,
                "list": [1, 2],
                "map": {"a": [None]},
                "maybe": None,
                "either": "x1",
                "any": [1.5],
            },
        )
    ]


def test_a_long_string_streams(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    """Most of a value is out before its end; also where it might have been null."""
    for text in ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}):
        turn = Turn(enable_thinking=False, tools=(tool("write", text=text),))
        parser = tiny_qwen.parser((), turn)
        opening = "<tool_call>\n<function=write>\n<parameter=text>\n"
        events = [e for i in by_bytes(tiny, opening + "word " * 20) for e in parser.feed(i)]
        assert "".join(e.arguments for e in events) == '{"text": "' + "word " * 20
