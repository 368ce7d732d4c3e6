"""Streams: joined pieces are the whole, nothing is shown too early, nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from junto.chat.detokenizer import StreamDecoder
from junto.errors import RequestError
from tests.chat.vocabularies import tiny_tokenizer

TINY = tiny_tokenizer()
ANY_IDS = st.lists(st.integers(0, TINY.n_vocab - 1), max_size=40)
STOPS = st.lists(st.text("ab<|", min_size=1, max_size=4), max_size=3)


def stream(ids: list[int], stop: list[str]) -> list[str]:
    decoder = StreamDecoder(TINY, stop)
    pieces = [decoder.feed(i) for i in ids]
    return [*pieces, decoder.finish()]


def first_complete_stop(text: str, stop: list[str]) -> str:
    """The text before the stop string that is complete first, found letter by letter."""
    for end in range(1, len(text) + 1):
        starts = [end - len(s) for s in stop if text[:end].endswith(s)]
        if starts:
            return text[: min(starts)]
    return text


@given(ANY_IDS)
def test_joined_pieces_are_the_whole_decode(ids: list[int]) -> None:
    assert "".join(stream(ids, [])) == TINY.decode(ids)


@given(st.text(max_size=20))
def test_bytes_of_a_text_never_show_half_a_character(text: str) -> None:
    pieces = stream(list(text.encode("utf-8")), [])
    assert "".join(pieces) == text
    assert "".join(pieces).count("\ufffd") == text.count("\ufffd")
    assert pieces[-1] == ""


@given(st.lists(st.sampled_from(list(b"ab<|\xc3\xa9")), max_size=30), STOPS)
def test_text_ends_before_the_first_stop_string(ids: list[int], stop: list[str]) -> None:
    assert "".join(stream(ids, stop)) == first_complete_stop(TINY.decode(ids), stop)


@given(st.text("ab<|", max_size=30), STOPS)
def test_only_the_beginning_of_a_stop_string_is_held_back(text: str, stop: list[str]) -> None:
    decoder = StreamDecoder(TINY, stop)
    shown = ""
    for n_fed, byte in enumerate(text.encode(), start=1):
        shown += decoder.feed(byte)
        held = text[len(shown) : n_fed]
        assert decoder.stopped or not held or any(s.startswith(held) for s in stop)


def test_characters_wait_for_their_last_byte() -> None:
    decoder = StreamDecoder(TINY)
    assert [decoder.feed(byte) for byte in "🦙".encode()] == ["", "", "", "🦙"]
    assert decoder.finish() == ""


def test_bytes_that_can_no_longer_be_a_character_are_replaced_at_once() -> None:
    decoder = StreamDecoder(TINY)
    assert decoder.feed(0xC3) == ""
    assert decoder.feed(ord("a")) == "\ufffda"
    assert decoder.feed(0xF0) == ""
    assert decoder.finish() == "\ufffd"


def test_a_stop_string_over_token_borders_is_cut() -> None:
    decoder = StreamDecoder(TINY, ["hello"])
    pieces = [decoder.feed(i) for i in TINY.encode("a hello b", special=False)]
    assert "".join(pieces) == "a "
    assert decoder.stopped
    assert decoder.finish() == ""


def test_what_only_began_like_a_stop_string_is_given_back() -> None:
    decoder = StreamDecoder(TINY, ["hello"])
    assert decoder.feed(TINY.encode("hell", special=False)[0]) == ""
    assert decoder.finish() == "hell"
    assert not decoder.stopped


def test_control_tokens_show_only_when_asked() -> None:
    ids = TINY.encode("a<|im_end|></think>", special=True)
    quiet, loud = StreamDecoder(TINY), StreamDecoder(TINY, special=True)
    assert "".join(map(quiet.feed, ids)) == "a</think>"
    assert "".join(map(loud.feed, ids)) == "a<|im_end|></think>"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(RequestError, match="empty string"):
        StreamDecoder(TINY, ["a", ""])
