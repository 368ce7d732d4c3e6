"""Cuts Markdown that is still being written into blocks that nothing to come can change.

A block of prose ends at an empty line that no indented line follows; code ends line by line. Texts
of all blocks joined are the text fed. What a block looks like is not known here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

FENCE = re.compile(r"^(?P<indent> {0,3})(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of text that is final.

    kind       prose: Markdown to be rendered by itself; open, code, close: a fence, a line of the
               code in it, and its end
    text       as it was written, newlines included
    language   open: the first word after the fence; may be empty
    """

    kind: Literal["prose", "open", "code", "close"]
    text: str
    language: str = ""


class Blocks:
    """Takes text in any pieces and gives blocks as they become final."""

    def __init__(self) -> None:
        self._line = ""
        self._prose: list[str] = []
        self._fence = ""
        self._nested = ""

    @property
    def growing(self) -> str:
        """What has come and belongs to no block yet."""
        return "".join(self._prose) + self._line

    def feed(self, text: str) -> Iterator[Block]:
        """The blocks that this text makes final."""
        *lines, rest = (self._line + text).split("\n")
        for line in lines:
            self._line = ""
            yield from self._take(line + "\n")
        self._line = rest

    def finish(self) -> Iterator[Block]:
        """What is left, when no more text comes."""
        line, self._line = self._line, ""
        if line:
            yield from self._take(line)
        yield from self._end_prose()

    def _take(self, line: str) -> Iterator[Block]:
        if self._fence:
            yield self._code(line)
            return
        ended = bool(self._prose) and not self._prose[-1].strip()
        if ended and not self._nested and line.strip() and not line.startswith((" ", "\t")):
            yield from self._end_prose()
        opening = FENCE.match(line.rstrip("\n"))
        if opening and not self._nested and not (opening["indent"] and self._is_in_list()):
            yield from self._end_prose()
            self._fence = opening["fence"]
            yield Block("open", line, (opening["info"].split() or [""])[0])
            return
        self._nest(line)
        self._prose.append(line)

    def _code(self, line: str) -> Block:
        if not _closes(line, self._fence):
            return Block("code", line)
        self._fence = ""
        return Block("close", line)

    def _is_in_list(self) -> bool:
        """Whether prose stands before that an indented fence may belong to."""
        return bool(self._prose) and bool(re.match(r" {0,3}([-*+]|\d+[.)])\s", self._prose[0]))

    def _nest(self, line: str) -> None:
        """Follow fences within a list, whose empty lines end nothing."""
        text = line.strip()
        if self._nested:
            self._nested = "" if _closes(text, self._nested) else self._nested
        elif found := FENCE.match(text):
            self._nested = found["fence"]

    def _end_prose(self) -> Iterator[Block]:
        text, self._prose, self._nested = "".join(self._prose), [], ""
        if text:
            yield Block("prose", text)


def _closes(line: str, fence: str) -> bool:
    text = line.strip()
    return len(text) >= len(fence) and set(text) == {fence[0]}
