"""Stop strings and thinking budgets of an answer, on a toy family."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from junto.chat.answer import Answer
from junto.chat.events import Event, message_of
from junto.errors import RequestError
from tests.chat.toy_dialogue import CLOSE, OPEN, ToyParser, ids_of


def events_of(
    text: str, stop: str | Sequence[str] = (), budget: int | None = None, *, thinks: bool = False
) -> list[Event]:
    """The events of an answer; forced tokens come next, as the engine gives them."""
    answer = Answer(ToyParser(thinks), stop, budget)
    events, ids = [], ids_of(text)
    while (answer.forced or ids) and not answer.stopped:
        events += answer.feed(answer.forced.popleft() if answer.forced else ids.pop(0))
    return [*events, *answer.finish("stop")]


def content_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if event.kind == "content")


def reasoning_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if event.kind == "reasoning")


def test_a_stop_string_is_held_back_and_cut_before() -> None:
    answer = Answer(ToyParser(False), "END")
    told = [content_of(answer.feed(token_id)) for token_id in ids_of("aEbEND")]
    assert told == ["a", "", "Eb", "", "", ""]
    assert answer.stopped
    assert answer.finish("stop") == [Event("finish", reason="stop")]


def test_what_was_held_back_comes_at_the_end() -> None:
    events = events_of("abEN", "END")
    assert content_of(events) == "abEN"
    assert events[-1] == Event("finish", reason="stop")


def test_one_stop_string_is_not_its_letters() -> None:
    assert content_of(events_of("Never END", stop="END")) == "Never "


def test_a_stop_string_may_end_in_what_the_parser_held_back() -> None:
    events = events_of("ab. ", stop=". ")
    assert content_of(events) == "ab"
    assert events[-1] == Event("finish", reason="stop")


def test_stop_strings_mean_nothing_in_reasoning_and_arguments() -> None:
    events = events_of("<think>xENDx</think>a<|im_start|>{END}", "END")
    assert message_of(events) == {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "xENDx",
        "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": "{END}"}}
        ],
    }
    assert events[-1].reason == "tool_calls"


def test_held_content_comes_before_what_follows_it() -> None:
    kinds = [event.kind for event in events_of("aE<|im_start|>{}", "END")]
    assert kinds == ["content", "content", "tool_call", "tool_call", "tool_call", "finish"]


def test_a_call_that_stands_behind_the_stop_string_never_was() -> None:
    events = events_of("aEND<|im_start|>{}", "END")
    assert events == [Event("content", "a"), Event("finish", reason="stop")]


@given(st.text("abE N", max_size=12), st.lists(st.text("abE N", min_size=1, max_size=3)))
def test_joined_content_is_the_text_before_the_first_complete_stop(
    text: str, stops: list[str]
) -> None:
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    end = min(ends, default=0)
    longest = max((len(s) for s in stops if text[:end].endswith(s)), default=0)
    expected = text[: end - longest] if ends else text
    assert content_of(events_of(text, stops)) == expected


def test_a_spent_budget_closes_reasoning_and_the_answer_goes_on() -> None:
    events = events_of("wonder", budget=3, thinks=True)
    assert (reasoning_of(events), content_of(events)) == ("won.", "der")


def test_a_budget_of_nothing_closes_at_once() -> None:
    answer = Answer(ToyParser(True), thinking_budget=0)
    assert list(answer.forced) == [ord("."), CLOSE]
    events = events_of("x<think>y", budget=0)
    assert (reasoning_of(events), content_of(events)) == (".", "xy")


def test_reasoning_that_opens_again_has_what_is_left_of_the_budget() -> None:
    events = events_of("<think>ab</think>c<think>defg", budget=3)
    assert (reasoning_of(events), content_of(events)) == ("abd.", "cefg")


def test_reasoning_within_its_budget_is_left_alone() -> None:
    answer = Answer(ToyParser(False), thinking_budget=2)
    for token_id in (OPEN, *ids_of("ab")):
        answer.feed(token_id)
    assert list(answer.forced) == [ord("."), CLOSE]
    answer = Answer(ToyParser(False), thinking_budget=3)
    for token_id in (OPEN, *ids_of("ab"), CLOSE, *ids_of("cdef")):
        answer.feed(token_id)
    assert not answer.forced


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(RequestError, match="thinking_budget is -1, expected at least 0"):
        Answer(ToyParser(False), thinking_budget=-1)
    with pytest.raises(RequestError, match="an empty string stops before anything"):
        Answer(ToyParser(False), ["a", ""])
