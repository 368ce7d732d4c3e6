"""Where the turns of a chat come from, and the plain way: the lines of a pipe.

A line that ends with a backslash goes on in the next one.
"""

import sys
from typing import Protocol

from junto.errors import TextError


class Reader(Protocol):
    """Gives one turn at a time."""

    @property
    def stays(self) -> bool:
        """Whether Ctrl-C, which stops an answer, leaves the chat open."""
        ...

    def read(self, draft: str = "") -> str | None:
        """The next turn, or None at the end; `draft` stands there to be changed, where it can."""
        ...


class PipeReader:
    """Turns from lines of standard input."""

    stays = False

    def read(self, draft: str = "") -> str | None:
        """The next line that is not empty; TextError where it is not UTF-8."""
        text = ""
        while line := sys.stdin.buffer.readline():
            text += _decoded(line).rstrip("\r\n")
            if text.endswith("\\"):
                text = text[:-1] + "\n"
            elif text.strip():
                return text
            else:
                text = ""
        return text if text.strip() else None


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TextError(
            f"standard input: byte {error.start} of a line is not UTF-8; the line was left out"
        ) from None
