"""Parsing of what models really write: text kept, repairs counted, arguments valid, no error."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from junto.chat.dialogue import Turn
from junto.chat.events import Event, message_of
from junto.chat.harmony import Harmony
from junto.chat.harmony.markup import Mark
from junto.chat.tokenizer import Tokenizer
from tests.chat.harmony.vocabulary import MARKS, OTHER_CONTROL, events_of, harmony_tokenizer

TINY = harmony_tokenizer()
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name}} for name in ("get_weather", "a.b")
]
WITH_TOOLS = Turn(tools=TOOLS)
ENDS = ("<|return|>", "<|call|>", "<|endoftext|>")
START, CHANNEL, MESSAGE = "<|start|>assistant", "<|channel|>", "<|message|>"
ANALYSIS, FINAL = f"{CHANNEL}analysis{MESSAGE}", f"{CHANNEL}final{MESSAGE}"
JSON = '{"city": "Paris"}'


def parsed(answer: str, turn: Turn | None = None, *, cut: bool = False) -> tuple[Any, ...]:
    """Reasoning, content, [(name, arguments)], reason and repairs of an answer spelled out."""
    parser = Harmony(TINY).parser(turn=turn)
    events = [event for i in TINY.encode(answer, special=True) for event in parser.feed(i)]
    events += parser.finish("length" if cut else "stop")
    message = message_of(events)
    calls = [call["function"] for call in message.get("tool_calls", [])]
    return (
        message.get("reasoning_content", ""),
        message["content"],
        [(call["name"], call["arguments"]) for call in calls],
        events[-1].reason,
        parser.n_repair,
    )


@pytest.mark.parametrize(
    "header",
    [
        f"{CHANNEL}commentary to=functions.get_weather <|constrain|>json",
        f" to=functions.get_weather{CHANNEL}commentary <|constrain|>json",
        f" to=functions.get_weather{CHANNEL}commentary json",
        f"{CHANNEL}commentary to=functions.get_weather json",
        f"{CHANNEL}commentary to=functions.get_weather",
        f"{CHANNEL}commentary to=functions.get_weather code",
        f"{CHANNEL}analysis to=functions.get_weather <|constrain|>json",
    ],
)
def test_every_sound_way_to_write_a_call(header: str) -> None:
    answer = f"{header}{MESSAGE}{JSON}<|call|>"
    assert parsed(answer, WITH_TOOLS) == ("", "", [("get_weather", JSON)], "tool_calls", 0)


@pytest.mark.parametrize(
    "header",
    [
        f"{START} to=functions.get_weather{CHANNEL}commentary json{MESSAGE}",
        f"{START}{CHANNEL}commentary to=functions.get_weather <|constrain|>json{MESSAGE}",
        f"assistant to=functions.get_weather{CHANNEL}commentary{MESSAGE}",
        f"{START}commentary to=functions.get_weather{MESSAGE}",
        f"{CHANNEL}commentary to=get_weather{MESSAGE}",
        f"{CHANNEL}commentary to=tools.get_weather{MESSAGE}",
        f"{CHANNEL}commentary to=functions.tools.get_weather{MESSAGE}",
        f" to=functions.get_weather{MESSAGE}",
        f"{CHANNEL} to=functions.get_weather{MESSAGE}",
        f"{CHANNEL}comm to=functions.get_weather{MESSAGE}",
        f"{CHANNEL}commentary{CHANNEL}commentary to=functions.get_weather{MESSAGE}",
        f"{CHANNEL}commentary to=functions.get_weather{CHANNEL}commentary{MESSAGE}",
        f"{CHANNEL}commentary to=functions.get_weather <|constrain|>json",
        f"{CHANNEL}commentary to=functions.get_weather <|constrain|>json<|constrain|>",
        f"{CHANNEL}commentary to=functions.get_weather",
        f"{CHANNEL}commentary to=functions.get_weather{MESSAGE}{MESSAGE}",
        f"{CHANNEL}commentary to=functions.get_weather\n<|constrain|>json\n{MESSAGE}{MESSAGE}",
        f"{CHANNEL}commentary to=functions.get_weather{MESSAGE}<|reserved_1|>",
        f"{CHANNEL}commentary to=functions.get_weather!{MESSAGE}",
    ],
)
def test_a_call_is_found_in_a_broken_header(header: str) -> None:
    *others, n_repair = parsed(f"{header}{JSON}<|call|>", WITH_TOOLS)
    assert others == ["", "", [("get_weather", JSON)], "tool_calls"]
    assert n_repair > 0


@pytest.mark.parametrize(
    ("answer", "reasoning", "content"),
    [
        (f"{ANALYSIS}r<|end|>{FINAL}c<|return|>", "r", "c"),  # no <|start|>
        (f"{ANALYSIS}r{START}{FINAL}c<|return|>", "r", "c"),  # no <|end|>
        (f"{ANALYSIS}r{FINAL}c<|return|>", "r", "c"),
        (f"{ANALYSIS}r<|end|>{START}{START}{FINAL}c<|return|>", "r", "c"),
        (f"{ANALYSIS}r<|end|><|start|><|start|>assistant{FINAL}c<|return|>", "r", "c"),
        (f"{ANALYSIS}r<|end|> 364 {START}{FINAL}c<|return|>", "r", " 364 c"),
        (f"{ANALYSIS}r<|end|>??{START}{FINAL}c<|return|>", "r", "??c"),
        (f"{ANALYSIS}r<|end|>commentary{MESSAGE}c<|return|>", "r", "c"),
        (f"{START}analysis{MESSAGE}r<|end|>{START}{FINAL}c<|return|>", "r", "c"),
        (f"{CHANNEL}??<|end|>{START}{FINAL}c<|return|>", "", "c"),
        (f"{CHANNEL}commentary 2?<|end|>{START}{FINAL}c<|return|>", "", "c"),
        (f"{CHANNEL}commentary?commentary?<|end|>{START}{FINAL}c<|return|>", "", "c"),
        (f"{CHANNEL}commentary\u2013commentary{MESSAGE}c<|return|>", "", "c"),
        (f"{CHANNEL}{MESSAGE}c<|return|>", "", "c"),
        (f"{CHANNEL}final The answer<|return|>", "", "The answer"),
        (f"{CHANNEL}final42<|return|>", "", "42"),
        (f"{CHANNEL}analysisWe think<|end|>{START}{FINAL}c<|return|>", "We think", "c"),
        (f"{CHANNEL}finally so<|return|>", "", "finally so"),
        (f"{CHANNEL}final us", "", "us"),
        (f"{CHANNEL}analysis I think<|end|>{START}{FINAL}c<|return|>", "I think", "c"),
        (f"{CHANNEL}I think so<|return|>", "", "I think so"),
        ("We answer." + f"{FINAL}c<|return|>", "", "We answer.c"),
        ("Sure!" + f"{MESSAGE}c<|return|>", "", "Sure!c"),
        ("final<|return|>", "", "final"),
        ("42<|return|>", "", "42"),
        ("user said: to=me<|return|>", "", "user said: to=me"),
        ("a\nb<|return|>", "", "a\nb"),
        ("-" * 300 + "<|return|>", "", "-" * 300),
        (f"{FINAL}a<|constrain|>b{MESSAGE}c<|reserved_1|>d<|return|>", "", "abcd"),
        (f"{FINAL}c<|call|>", "", "c"),
        (f"{CHANNEL}commentary to=assistant{MESSAGE}r<|end|>{START}{FINAL}c<|return|>", "r", "c"),
        (f"{CHANNEL}commentary to=<|constrain|>json{MESSAGE}c<|return|>", "", "c"),
        (f"{CHANNEL}commentary to=functions{MESSAGE}c<|call|>", "", "c"),
        (f"{ANALYSIS}r<|end|><|end|>{START}{FINAL}c<|endoftext|>", "r", "c"),
        (f"{START}analysis", "", ""),
        (f"{CHANNEL}final", "", ""),
        ("<|start|>assist", "", ""),
        (f"{CHANNEL}commentary to=functions.get_wea", "", ""),
    ],
)
def test_text_is_kept_and_the_repair_counted(answer: str, reasoning: str, content: str) -> None:
    assert parsed(answer)[:4] == (reasoning, content, [], "stop")
    assert parsed(answer)[4] > 0


def test_nothing_follows_the_end() -> None:
    for end in ENDS:
        assert parsed(f"{FINAL}c{end}{START}{FINAL}more<|return|>")[1] == "c"
    parser = Harmony(TINY).parser()
    assert parser.finish() == [Event("finish", reason="stop")]
    assert parser.finish() == []
    assert [event for i in TINY.encode(f"{FINAL}c", special=True) for event in parser.feed(i)] == []


def test_calls_end_with_call_and_others_do_not() -> None:
    call = f" to=functions.f{CHANNEL}commentary json{MESSAGE}{{}}"
    assert parsed(f"{call}<|end|>{START}{call}<|call|>") == (
        "",
        "",
        [("f", "{}"), ("f", "{}")],
        "tool_calls",
        1,
    )


@pytest.mark.parametrize(
    ("body", "arguments"),
    [("", "{}"), ('{"a": "b', '{"a": "b"}'), ("Paris", '{"input": "Paris"}')],
)
def test_arguments_are_json_whatever_the_model_wrote(body: str, arguments: str) -> None:
    answer = f" to=functions.f{CHANNEL}commentary json{MESSAGE}{body}"
    assert parsed(f"{answer}<|call|>") == ("", "", [("f", arguments)], "tool_calls", 1)
    assert parsed(answer, cut=True) == ("", "", [("f", arguments)], "length", 1)


def test_a_call_without_arguments_or_message() -> None:
    assert parsed(f"{CHANNEL}commentary to=functions.f<|call|>")[2:4] == (
        [("f", "{}")],
        "tool_calls",
    )


@pytest.mark.parametrize(
    ("recipient", "name"),
    [
        ("functions.get_weather", "get_weather"),
        ("functions.a.b", "a.b"),
        ("a.b", "a.b"),
        ("functions.get_weather<", "get_weather"),
        ("functions.unknown", "unknown"),
        ("browser.search", "browser.search"),
    ],
)
def test_names_hold_no_markup_and_no_namespace(recipient: str, name: str) -> None:
    answer = f"{CHANNEL}commentary to={recipient}{MESSAGE}{{}}<|call|>"
    assert parsed(answer, WITH_TOOLS)[2] == [(name, "{}")]


def test_markup_spelled_in_letters_stays_out_of_names() -> None:
    plain = TINY.encode(" to=functions.f<|channel|>commentary", special=False)
    ids = [*plain, *TINY.encode(f"{MESSAGE}{{}}<|call|>", special=True)]
    calls = message_of(events_of(Harmony(TINY).parser(), ids))["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["f"]


def test_builtin_tools_are_called_on_the_analysis_channel() -> None:
    turn = Turn(variables={"builtin_tools": ["browser", "python"]})
    search = f'{CHANNEL}analysis to=browser.search code{MESSAGE}{{"query": "cats"}}<|call|>'
    assert parsed(search, turn)[2:] == ([("browser.search", '{"query": "cats"}')], "tool_calls", 0)
    code = 'print("a")\n'
    python = f"{CHANNEL}analysis to=python code{MESSAGE}{code}<|call|>"
    assert parsed(python, turn)[2:] == ([("python", json.dumps({"code": code}))], "tool_calls", 0)


def test_closing_reasoning_goes_on_with_the_final_answer() -> None:
    parser = Harmony(TINY).parser()
    assert parser.close_reasoning() == []
    events = [e for i in TINY.encode(f"{ANALYSIS}endless", special=True) for e in parser.feed(i)]
    closing = parser.close_reasoning()
    assert TINY.decode(closing, special=True) == f"<|end|>{START}{FINAL}"
    events += [event for i in closing for event in parser.feed(i)]
    assert parser.close_reasoning() == []
    message = message_of([*events, *events_of(parser, TINY.encode("c<|return|>", special=True))])
    assert message == {"role": "assistant", "reasoning_content": "endless", "content": "c"}
    assert parser.n_repair == 0


def test_an_answer_whose_beginning_the_prompt_wrote() -> None:
    assert parsed("c<|return|>", Turn(enable_thinking=False)) == ("", "c", [], "stop", 0)
    turn = Turn(enable_thinking=False, tools=TOOLS)
    assert parsed(f"{FINAL}c<|return|>", turn) == ("", "c", [], "stop", 0)
    turn = Turn(add_generation_prompt=False)
    assert parsed(f"{START}{FINAL}c<|return|>", turn) == ("", "c", [], "stop", 0)
    assert parsed(f"{FINAL}c<|return|>", turn) == ("", "c", [], "stop", 1)


def test_a_character_that_never_ends_is_told_at_the_end_alone(gpt_oss: Tokenizer) -> None:
    parser = Harmony(gpt_oss).parser()
    ids = gpt_oss.encode(f"{FINAL}你好👋", special=True)
    told = [event.text for i in ids[:-1] for event in parser.feed(i)]
    assert "\ufffd" not in "".join(told)
    assert parser.finish()[0].text == "\ufffd"


WORDS = st.sampled_from(
    [
        *("assistant", "user", "analysis", "commentary", "final", " to=functions.f", " to=python"),
        *("json", '{"a": ', '"b"', "}", "[", "é", "👋", " ", "\n", "x" * 99, "fin", "to=", "1"),
    ]
)
SPELLED = st.lists(st.sampled_from([*MARKS, *OTHER_CONTROL]) | WORDS, max_size=20)


def check(events: list[Event]) -> None:
    """What holds for the events of any answer."""
    assert [event.kind for event in events].index("finish") == len(events) - 1
    assert all(event.text for event in events if event.kind in ("reasoning", "content"))
    calls: dict[int, list[Event]] = {}
    for event in events:
        if event.kind == "tool_call":
            calls.setdefault(event.index, []).append(event)
    assert list(calls) == list(range(len(calls)))
    for first, *others in calls.values():
        assert first.name
        assert not set(first.name) & set("<|> =")
        assert not any(event.name for event in others)
        assert all(event.arguments for event in others)
        arguments = "".join(event.arguments for event in (first, *others))
        assert isinstance(json.loads(arguments), dict)
    assert (events[-1].reason == "tool_calls") == bool(calls)


@settings(deadline=None)
@given(st.lists(st.integers(-2, TINY.n_vocab + 1), max_size=40))
def test_no_ids_raise(ids: list[int]) -> None:
    check(events_of(Harmony(TINY).parser(turn=WITH_TOOLS), ids))


@settings(deadline=None)
@given(SPELLED)
def test_no_markup_raises_and_none_is_told(answer: list[str]) -> None:
    parser = Harmony(TINY).parser()
    events = events_of(parser, TINY.encode("".join(answer), special=True))
    check(events)
    told = "".join(event.text + event.name + event.arguments for event in events)
    assert not any(mark in told for mark in (*MARKS, *OTHER_CONTROL))
    assert "\ufffd" not in told


@settings(deadline=None)
@given(SPELLED)
def test_how_text_is_cut_into_tokens_changes_nothing(gpt_oss: Tokenizer, answer: list[str]) -> None:
    """The real vocabulary's long tokens, and the same text byte by byte."""
    text = "".join(answer)
    long, short = Harmony(gpt_oss).parser(), Harmony(TINY).parser()
    known = text.replace("<|reserved_1|>", "<|reserved_200013|>")
    told = message_of(events_of(long, gpt_oss.encode(known, special=True)))
    assert told == message_of(events_of(short, TINY.encode(text, special=True)))
    assert long.n_repair == short.n_repair


@settings(deadline=None)
@given(st.lists(WORDS, max_size=6).map("".join))
def test_no_text_is_lost_with_or_without_markup(body: str) -> None:
    sound = f"{ANALYSIS}{body}<|end|>{START}{FINAL}{body}<|return|>"
    assert parsed(sound) == (body, body, [], "stop", 0)
    for end in ("", "<|return|>", "<|end|>", f"{START}{FINAL}"):
        assert parsed(f"some {body}{end}")[:2] == ("", f"some {body}")


@pytest.mark.parametrize("mark", [mark for mark in MARKS if mark not in ENDS])
def test_a_mark_without_end_costs_no_more_than_its_length(mark: str) -> None:
    events = events_of(Harmony(TINY).parser(), TINY.encode(f"{mark}a" * 10_000, special=True))
    check(events)


def test_marks_are_all_known() -> None:
    assert {TINY.token_text(i) for i in Harmony(TINY).stop_ids} == {
        mark.value for mark in (Mark.RETURN, Mark.CALL, Mark.END_OF_TEXT)
    }
