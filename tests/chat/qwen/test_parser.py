"""Reasoning and content; streams cut anywhere; nothing that a model writes is an error."""

import json
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from junto.chat.dialogue import Parser, Turn
from junto.chat.events import Event
from junto.chat.qwen import Qwen
from junto.chat.qwen.dialogue import BUDGET_SENTENCE
from junto.chat.tokenizer import Tokenizer
from tests.chat.qwen.answers import (
    SILENT,
    TAGS,
    THINKING,
    TOOLS,
    Read,
    by_bytes,
    by_letters,
    read,
    summary,
    xml_call,
)
from tests.chat.qwen.test_render import TEMPLATES, with_template

BOTH = Read("Hm, so.", "It is 4.", [], "stop", 0)
WITH_TOOLS = Turn(tools=TOOLS)

ANSWERS: dict[str, tuple[Turn, str, Read]] = {
    "as the template writes it": (THINKING, "Hm, so.\n</think>\n\nIt is 4.<|im_end|>", BOTH),
    "by default it thinks": (Turn(), "Hm, so.\n</think>\n\nIt is 4.<|im_end|>", BOTH),
    "other newlines": (THINKING, "\n\nHm, so.</think>It is 4.\n\n\n", BOTH),
    "text behind the end": (THINKING, "Hm, so.\n</think>\n\nIt is 4.<|im_end|>\nuser", BOTH),
    "no thinking": (SILENT, "It is 4.<|im_end|>", Read("", "It is 4.", [], "stop", 0)),
    "newlines within": (
        THINKING,
        "a\n\nb\n</think>\n\nc\n\n\nd\n",
        Read("a\n\nb", "c\n\n\nd", [], "stop", 0),
    ),
    "indented content": (SILENT, "\n    code\n", Read("", "    code", [], "stop", 0)),
    "nothing": (SILENT, "", Read("", "", [], "stop", 0)),
    "empty reasoning": (THINKING, "\n</think>\n\nIt is 4.", Read("", "It is 4.", [], "stop", 0)),
    "<think> again": (
        THINKING,
        "<think>\nHm, so.\n</think>\n\nIt is 4.",
        Read("Hm, so.", "It is 4.", [], "stop", 1),
    ),
    "<think> within": (
        THINKING,
        "a <think> b</think>c",
        Read("a <think> b", "c", [], "stop", 1),
    ),
    "</think> without reasoning": (
        SILENT,
        "</think>\n\nIt is 4.",
        Read("", "It is 4.", [], "stop", 1),
    ),
    "reasoning again": (
        THINKING,
        "a</think>b<think>c</think>d",
        Read("a\nc", "bd", [], "stop", 1),
    ),
    "no </think>": (THINKING, "It is 4.", Read("It is 4.", "", [], "stop", 1)),
    "a control token": (SILENT, "a<|im_start|>b", Read("", "ab", [], "stop", 1)),
    "tags that mean nothing": (
        SILENT,
        "<tool_response>a</tool_response>",
        Read("", "<tool_response>a</tool_response>", [], "stop", 0),
    ),
    "text around calls": (
        WITH_TOOLS,
        f"R\n</think>\n\nA\n\n{xml_call('weather', {})}\n\nB\n",
        Read("R", "A\n\n\n\nB", [("weather", {})], "tool_calls", 0),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_reasoning_and_content_are_told_apart(tiny_qwen: Qwen, tiny: Tokenizer, name: str) -> None:
    turn, text, expected = ANSWERS[name]
    assert read(tiny_qwen, tiny.encode(text, special=True), turn) == expected
    assert read(tiny_qwen, by_bytes(tiny, text), turn) == expected


def test_only_the_token_ends_reasoning(real_qwen: Qwen, qwen35: Tokenizer) -> None:
    spelled = qwen35.encode("I must write </think> soon.", special=False)
    ids = [*spelled, *qwen35.encode("\n</think>\n\n<think> is a tag", special=True)[:3]]
    found = read(real_qwen, ids, THINKING)
    assert found.reasoning == "I must write </think> soon."
    content = qwen35.encode("<think> is a tag", special=False)
    assert read(real_qwen, content, SILENT).content == "<think> is a tag"


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_prompt_decides_whether_reasoning_is_open(qwen35: Tokenizer, name: str) -> None:
    qwen = with_template(qwen35, name)
    ids = qwen35.encode("a", special=False)
    opens = "3.5" in name
    assert read(qwen, ids, Turn()).reasoning == "a" * opens
    assert read(qwen, ids, SILENT).content == "a"
    assert read(qwen, ids, Turn(add_generation_prompt=False)).content == "a"
    thought = qwen35.encode("<think>\nR\n</think>\n\nC", special=True)
    assert read(qwen, thought, Turn()) == Read("R", "C", [], "stop", int(opens))


def test_a_letter_split_over_tokens_waits(real_qwen: Qwen, qwen35: Tokenizer) -> None:
    ids = qwen35.encode("🦜", special=False)
    assert len(ids) > 1
    parser = real_qwen.parser((), SILENT)
    events = [parser.feed(i) for i in ids]
    assert events == [[]] * (len(ids) - 1) + [[Event("content", text="🦜")]]
    cut = read(real_qwen, ids[:-1], SILENT)
    assert cut.content == "\ufffd"
    cut = read(real_qwen, [*ids[:-1], *qwen35.encode("</think>", special=True)], THINKING)
    assert (cut.reasoning, cut.content) == ("\ufffd", "")


def test_nothing_comes_after_the_end(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    parser = tiny_qwen.parser((), SILENT)
    (end,) = tiny.encode("<|im_end|>", special=True)
    assert parser.feed(end) == []
    assert parser.feed(ord("a")) == []
    assert parser.finish() == [Event("finish", reason="stop")]
    assert parser.feed(ord("a")) + parser.finish() == []
    assert parser.close_reasoning() == []


def test_an_id_outside_of_the_vocabulary_is_no_text(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    found = read(tiny_qwen, [ord("a"), tiny.n_vocab, -1, ord("b")], SILENT)
    assert found == Read("", "ab", [], "stop", 2)


def test_a_cut_answer_says_length(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    ids = tiny.encode(xml_call("weather", {"city": "Paris"}), special=True)
    assert read(tiny_qwen, ids, SILENT, "length").reason == "length"
    assert read(tiny_qwen, ids, SILENT).reason == "tool_calls"
    assert read(tiny_qwen, [ord("a")], THINKING, "length") == Read("a", "", [], "length", 0)


def test_a_spent_budget_closes_reasoning(real_qwen: Qwen, qwen35: Tokenizer) -> None:
    parser: Parser = real_qwen.parser((), THINKING)
    events = [event for i in qwen35.encode("Let me see", special=False) for event in parser.feed(i)]
    closing = parser.close_reasoning()
    assert qwen35.decode(closing) == f"\n\n{BUDGET_SENTENCE}\n</think>\n\n"
    for i in [*closing, *qwen35.encode("4", special=False)]:
        events += parser.feed(i)
    assert parser.close_reasoning() == []
    found = summary(events + parser.finish(), parser.n_repair)
    assert found == Read(f"Let me see\n\n{BUDGET_SENTENCE}", "4", [], "stop", 0)


def test_a_budget_of_nothing_writes_an_empty_block(real_qwen: Qwen, qwen35: Tokenizer) -> None:
    """The same text as a prompt without thinking."""
    messages = [{"role": "user", "content": "Hi"}]
    closing = real_qwen.parser(messages, THINKING).close_reasoning()
    text = qwen35.decode(real_qwen.render(messages, THINKING) + closing, special=True)
    assert text == qwen35.decode(real_qwen.render(messages, SILENT), special=True)


def test_reasoning_is_not_closed_where_none_is_open(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    assert tiny_qwen.parser((), SILENT).close_reasoning() == []
    parser = tiny_qwen.parser((), WITH_TOOLS)
    for i in tiny.encode("a<tool_call>\n<function=weather>\n", special=True):
        parser.feed(i)
    assert parser.close_reasoning() == []
    for i in tiny.encode("</function></tool_call>b", special=True):
        parser.feed(i)
    assert parser.close_reasoning() != []


FRAGMENTS = [
    *TAGS,
    "<function=weather>",
    "<function=write>\n",
    "<function=fly>\n",
    "</function>",
    "<parameter=city>",
    "<parameter=text>\n",
    "<parameter=days>\n",
    "<parameter=zip>\n",
    "</parameter>",
    "\n</parameter>\n</function>\n</tool_call>",
    '{"name": "weather", "arguments": {"city": "Paris"}}',
    '{"name": "write", "arguments": {',
    '"text": "a\\n',
    '"}}',
    "{",
    "}",
    '"',
    "\\",
    "```\n",
    "<",
    "</",
    ">",
    "\n",
    "\n\n",
    " ",
    "12",
    "null",
    "word",
    "é",
    "👋",
    "<|im_start|>",
]
MARKUP = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)
TURNS = st.sampled_from([THINKING, SILENT, WITH_TOOLS, Turn(enable_thinking=False, tools=TOOLS)])
REASONS: Any = st.sampled_from(["stop", "length"])


@settings(deadline=None, max_examples=400)
@given(text=MARKUP, turn=TURNS, reason=REASONS)
@example(text='<tool_call>{"name": "weather"', turn=SILENT, reason="length")
def test_how_text_is_cut_into_tokens_changes_nothing(
    tiny_qwen: Qwen, tiny: Tokenizer, text: str, turn: Turn, reason: Any
) -> None:
    """And arguments are a JSON object, whatever was written (checked by `read`)."""
    whole = read(tiny_qwen, tiny.encode(text, special=True), turn, reason)
    assert read(tiny_qwen, by_bytes(tiny, text), turn, reason) == whole
    assert read(tiny_qwen, by_letters(tiny, text), turn, reason) == whole
    assert "\ufffd" not in json.dumps([whole.reasoning, whole.content, whole.calls])


@settings(deadline=None, max_examples=200)
@given(ids=st.lists(st.integers(0, 275), max_size=60), turn=TURNS, reason=REASONS)
def test_random_tokens_are_read(tiny_qwen: Qwen, ids: list[int], turn: Turn, reason: Any) -> None:
    assert read(tiny_qwen, ids, turn, reason).reason in ("stop", "length", "tool_calls")


WORDS = st.lists(
    st.one_of(
        st.sampled_from([tag for tag in FRAGMENTS if "{" not in tag and "im_start" not in tag]),
        st.just("?"),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=300)
@given(fragments=WORDS, turn=TURNS)
def test_no_word_is_lost(
    tiny_qwen: Qwen, tiny: Tokenizer, fragments: list[str], turn: Turn
) -> None:
    """Each word is in reasoning, content or some argument; none of the parameters comes twice."""
    words = [f"w{i}x" for i in range(len(fragments))]
    keyed = [
        f.replace("=", f"={word}") if "parameter=" in f else f.replace("?", word)
        for f, word in zip(fragments, words, strict=True)
    ]
    text = "".join(keyed) + "\n"
    found = read(tiny_qwen, tiny.encode(text, special=True), turn)
    seen = json.dumps([found.reasoning, found.content, found.calls], ensure_ascii=False)
    for word in words:
        assert text.count(word) == seen.count(word)


def test_long_answers_take_linear_time(tiny_qwen: Qwen, tiny: Tokenizer) -> None:
    """Ten times the text costs at most thirty times the steps; texts that make a reader wait."""

    def n_steps(text: str) -> int:
        n = 0

        def count(*_: object) -> None:
            nonlocal n
            n += 1

        ids = by_bytes(tiny, text)
        sys.setprofile(count)
        try:
            read(tiny_qwen, ids, Turn(enable_thinking=False, tools=TOOLS))
        finally:
            sys.setprofile(None)
        return n

    value = "<tool_call>\n<function=write>\n<parameter=text>\n"
    for opening, piece in (
        ("", "\n"),
        ("", "<"),
        (value, "</parameter>\n"),
        (value, "\n<parameter=path"),
        (value, "<tool_call>\n"),
        ('<tool_call>{"name": "', "\\"),
        ("<tool_call>", " "),
        ("<tool_call>", '{"a": ['),
    ):
        few, many = (n_steps(opening + piece * n) for n in (30, 300))
        assert many < 30 * few, (opening, piece)
