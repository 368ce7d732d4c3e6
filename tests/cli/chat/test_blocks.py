"""Markdown cut while it comes: nothing is lost, and what is final never changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from junto.cli.chat.blocks import Block, Blocks


def blocks_of(*pieces: str) -> list[Block]:
    blocks = Blocks()
    return [block for piece in pieces for block in blocks.feed(piece)] + list(blocks.finish())


def test_prose_ends_at_an_empty_line_once_the_next_begins() -> None:
    blocks = Blocks()
    assert list(blocks.feed("one\ntwo\n\n")) == []
    assert blocks.growing == "one\ntwo\n\n"
    assert list(blocks.feed("three\n")) == [Block("prose", "one\ntwo\n\n")]
    assert list(blocks.finish()) == [Block("prose", "three\n")]


def test_code_comes_line_by_line_with_its_language() -> None:
    assert blocks_of("Look:\n```py title\na = 1\n\nb\n``\n```\nend") == [
        Block("prose", "Look:\n"),
        Block("open", "```py title\n", "py"),
        Block("code", "a = 1\n"),
        Block("code", "\n"),
        Block("code", "b\n"),
        Block("code", "``\n"),
        Block("close", "```\n"),
        Block("prose", "end"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "- one\n\n  more of it\n- two\n",
        "1. one:\n\n   ```py\n   a = 1\n\nb = 2\n   ```\n2. two\n",
        "inline ``` is no fence\n",
    ],
)
def test_what_belongs_together_stays_one_block(text: str) -> None:
    assert blocks_of(text) == [Block("prose", text)]


def test_a_fence_at_the_margin_ends_a_list() -> None:
    kinds = [block.kind for block in blocks_of("- one\n```\nx\n```\n")]
    assert kinds == ["prose", "open", "code", "close"]


def test_a_longer_fence_holds_a_shorter_one() -> None:
    kinds = [block.kind for block in blocks_of("~~~~\n~~~\n```\n~~~~\n")]
    assert kinds == ["open", "code", "code", "close"]


@given(st.lists(st.sampled_from(["a", "\n", "\n\n", "```", "~~~", "- ", "   ", "py", "1. "])))
def test_any_cut_gives_the_same_blocks_and_loses_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole = blocks_of(text)
    assert "".join(block.text for block in whole) == text
    assert blocks_of(*pieces) == whole == blocks_of(*text)
