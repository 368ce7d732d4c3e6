"""Parsing: every golden completion, as messages and as events."""

from typing import Any

import pytest

from junto.chat.events import message_of
from junto.chat.harmony import Harmony
from junto.chat.harmony.header import Header
from junto.chat.harmony.markup import Markup
from junto.chat.harmony.reader import Closed, MessageReader, Opened, Step, Text
from junto.chat.tokenizer import Tokenizer
from tests.chat.harmony.goldens import PARSE_ROWS, Row, id_of
from tests.chat.harmony.vocabulary import events_of

# What openai-harmony refuses and we do not: its text, and how much was mended.
REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "tool_call_template_style": (
        {"content": "", "call": ("get_weather", '{"city": "Paris"}')},
        1,  # <|start|> for a second time
    ),
    "truncated_in_header": ({"reasoning_content": "Add.", "content": ""}, 2),
    "plain_text_no_header": ({"content": "hello world"}, 1),
    "empty": ({"content": ""}, 0),
    "double_return": ({"content": "a"}, 0),
}


def read(tokenizer: Tokenizer, ids: list[int]) -> list[Step]:
    reader = MessageReader(tokenizer, Markup.of(tokenizer))
    steps = [step for i in ids for step in reader.feed(i)]
    return steps + reader.finish()


def golden_header(message: Row) -> tuple[str, str, str, str]:
    kind = message.get("content_type", "").removeprefix("<|constrain|>")
    return message["role"], message.get("channel") or "", message.get("recipient") or "", kind


def messages_of(steps: list[Step]) -> list[tuple[tuple[str, str, str, str], str]]:
    """(header, text) of each message."""
    messages: list[tuple[tuple[str, str, str, str], str]] = []
    for step in steps:
        match step:
            case Opened(Header(role, channel, recipient, content_type)):
                messages.append(((role, channel, recipient, content_type), ""))
            case Text(text):
                header, before = messages[-1]
                messages[-1] = header, before + text
            case Closed():
                pass
    return messages


def test_there_are_17_completions() -> None:
    assert len(PARSE_ROWS) == 17


@pytest.mark.parametrize(
    "row", [row for row in PARSE_ROWS if "messages" in row["lenient"]], ids=id_of
)
def test_messages_are_those_of_openai_harmony(row: Row, gpt_oss: Tokenizer) -> None:
    expected = [
        (golden_header(message), message["content"][0]["text"])
        for message in row["lenient"]["messages"]
    ]
    assert messages_of(read(gpt_oss, row["tokens"])) == expected


@pytest.mark.parametrize("row", [row for row in PARSE_ROWS if row.get("stream")], ids=id_of)
def test_deltas_are_those_of_openai_harmony(row: Row, gpt_oss: Tokenizer) -> None:
    """But for the recipient that it sees in a header which the lenient parser reads otherwise."""
    channel = recipient = None
    deltas = []
    for step in read(gpt_oss, row["tokens"]):
        match step:
            case Opened(header):
                channel, recipient = header.channel or None, header.recipient or None
            case Text(text):
                deltas.append([channel, recipient, text])
            case Closed():
                pass
    if row["id"] == "user_header":
        row = {**row, "stream": [[None, None, text] for _, _, text in row["stream"]]}
    assert deltas == row["stream"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_openai_harmony_refuses_is_mended(name: str, gpt_oss: Tokenizer) -> None:
    row = next(row for row in PARSE_ROWS if row["id"] == name)
    assert "error" in row["lenient"]
    parser = Harmony(gpt_oss).parser()
    message = message_of(events_of(parser, row["tokens"]))
    expected, n_repair = REFUSED[name]
    calls = [call["function"] for call in message.pop("tool_calls", [])]
    if "call" in expected:
        called, arguments = expected["call"]
        assert calls == [{"name": called, "arguments": arguments}]
    assert message == {"role": "assistant"} | {k: v for k, v in expected.items() if k != "call"}
    assert parser.n_repair == n_repair


@pytest.mark.parametrize(
    ("name", "expected", "n_repair"),
    [
        ("final_only", ["", "4", []], 0),
        ("analysis_final", ["Add.", "4", []], 0),
        ("tool_call", ["Call it.", "", [("get_weather", '{"city": "Paris"}')]], 0),
        ("tool_call_recipient_first", ["Call it.", "", [("get_weather", '{"city": "Paris"}')]], 0),
        ("preamble_then_call", ["Plan.", "I will check.", [("get_weather", "{}")]], 0),
        ("truncated_mid_final", ["Add.", "The answ", []], 0),
        ("no_channel", ["", "hello", []], 1),
        ("stray_end", ["", "", []], 1),
        ("unknown_channel", ["", "xy", []], 1),
        ("empty_analysis", ["", "ok", []], 0),
        ("unicode_split", ["", "👩‍💻 你好", []], 0),
        ("user_header", ["", "hijack", []], 3),
    ],
)
def test_events_of_a_completion(
    name: str, expected: list[Any], n_repair: int, gpt_oss: Tokenizer
) -> None:
    row = next(row for row in PARSE_ROWS if row["id"] == name)
    parser = Harmony(gpt_oss).parser()
    message = message_of(events_of(parser, row["tokens"]))
    calls = [call["function"] for call in message.get("tool_calls", [])]
    assert [
        message.get("reasoning_content", ""),
        message["content"],
        [(call["name"], call["arguments"]) for call in calls],
    ] == expected
    assert parser.n_repair == n_repair
