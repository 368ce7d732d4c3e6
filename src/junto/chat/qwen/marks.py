"""The text of an answer while it comes, with markup tokens as marks that no text can hold.

A mark is a lone surrogate: decoded text never has one, so what the model wrote as a markup token
and what it only spelled stay apart in one string. The methods that look ahead are generators: they
wait (yield) while the text that would decide is still to come, so whatever is decided does not
depend on how the text was cut. Knows nothing of what the tags mean.

Invariant: `END` is the last character ever; nothing looks behind it.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Wait = Generator[None, None, T]
"""Something that is known once enough text has come."""

THINK, END_THINK, CALL, END_CALL, END = "\ud800", "\ud801", "\ud802", "\ud803", "\ud804"
TAGS = {THINK: "<think>", END_THINK: "</think>", CALL: "<tool_call>", END_CALL: "</tool_call>"}
MARKS = "".join([*TAGS, END])

_SPELLED = {ord(mark): tag for mark, tag in TAGS.items()} | {ord(END): ""}
_NAME_END = re.compile(f"[>\n{MARKS}]")
_MAX_BLANKS = 64
_MAX_NAME_CHARS = 256


def spelled(text: str) -> str:
    """The text with its marks as the tags that they stand for."""
    return text.translate(_SPELLED)


@dataclass(frozen=True, slots=True)
class Name:
    """What stands behind "<function=" or "<parameter="; `end` is the offset behind it.

    closed   whether ">" ended it, as it should
    """

    text: str
    end: int
    closed: bool


class Source:
    """The text that is not read yet; offsets count from its beginning."""

    def __init__(self) -> None:
        self.text = ""

    def push(self, text: str) -> None:
        """Add what has come."""
        self.text += text

    def take(self, n: int) -> str:
        """Read n characters; marks are spelled."""
        taken, self.text = self.text[:n], self.text[n:]
        return spelled(taken)

    def find(self, pattern: re.Pattern[str]) -> int | None:
        """Offset of the pattern of one character, or None where it has not come yet."""
        found = pattern.search(self.text)
        return found.start() if found else None

    def at(self, i: int) -> Wait[str]:
        """The character at an offset."""
        while len(self.text) <= i:
            yield
        return self.text[i]

    def blank_end(self, i: int) -> Wait[int]:
        """Offset behind the blanks at i; no more than 64 count as blanks."""
        last = i + _MAX_BLANKS
        while i < last and (yield from self.at(i)).isspace():
            i += 1
        return i

    def word_end(self, i: int, word: str) -> Wait[int | None]:
        """Offset behind a word that stands at i; None where another text does."""
        while True:
            piece = self.text[i : i + len(word)]
            if piece == word:
                return i + len(word)
            if not word.startswith(piece):
                return None
            yield

    def name_at(self, i: int) -> Wait[Name | None]:
        """The name at i, up to ">" or the line's end; None where there is none or it is cut."""
        while not (found := _NAME_END.search(self.text, i)):
            if len(self.text) > i + _MAX_NAME_CHARS:
                return None
            yield
        name = self.text[i : found.start()].strip(" \t\r\"'")
        closed = found[0] == ">"
        if not name or len(name) > _MAX_NAME_CHARS or not (closed or found[0] == "\n"):
            return None
        return Name(name, found.end() if closed else found.start(), closed)

    def is_over(self, i: int) -> bool:
        """Whether the answer ends at i."""
        return self.text[i] == END

    def drop_stump(self, tags: tuple[str, ...]) -> None:
        """Read what is left of a tag within which the answer ends."""
        if self.breaks_off(0, tags):
            self.take(len(self.text) - 1)

    def breaks_off(self, i: int, tags: tuple[str, ...]) -> bool:
        """Whether the answer ends within one of the tags, begun at i."""
        rest = self.text[i:]
        if not rest.endswith(END):
            return False
        rest = rest[:-1]
        return rest != "" and any(
            tag.startswith(rest) or (tag[-1] == "=" and rest.startswith(tag)) for tag in tags
        )
