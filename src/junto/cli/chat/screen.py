"""What a chat needs of the place it writes to, and the plain one: a pipe, or a dumb terminal."""

import sys
from typing import Protocol

# All control characters but newline and tab: an answer must not steer the terminal.
_CONTROL = {code: None for code in (*range(32), 127, *range(128, 160)) if code not in (9, 10)}


def shown(text: str) -> str:
    """The text without control characters."""
    return text.translate(_CONTROL)


class Screen(Protocol):
    """Where answers and remarks go. Between `begin` and `end` comes one answer."""

    hides_reasoning: bool

    def begin(self) -> None:
        """An answer is being computed."""
        ...

    def reasoning(self, text: str) -> None:
        """The next characters of reasoning."""
        ...

    def content(self, text: str) -> None:
        """The next characters of the answer."""
        ...

    def end(self) -> None:
        """The answer is over, wherever it stands."""
        ...

    def say(self, text: str) -> None:
        """What a command was asked for."""
        ...

    def remark(self, text: str) -> None:
        """What happened by the way: figures, marks; nobody asked for it."""
        ...

    def warn(self, text: str) -> None:
        """What deserves attention."""
        ...

    def error(self, text: str) -> None:
        """What went wrong, in one line."""
        ...


class PlainScreen:
    """Text as it comes. Into a pipe go answers and what was asked for, and nothing else.

    is_terminal   somebody watches: reasoning and remarks are shown, control characters are not
    """

    def __init__(self, *, is_terminal: bool, hides_reasoning: bool = False) -> None:
        self.hides_reasoning = hides_reasoning
        self._is_terminal = is_terminal
        self._last = ""
        self._is_reasoning = False

    def begin(self) -> None:
        """Nothing to show yet."""
        self._last, self._is_reasoning = "", False

    def reasoning(self, text: str) -> None:
        """Written like content, with a word before and an empty line after, or not at all."""
        if self.hides_reasoning or not self._is_terminal:
            return
        if not self._is_reasoning:
            self._write("[reasoning] ")
            self._is_reasoning = True
        self._write(shown(text))

    def content(self, text: str) -> None:
        """Written at once."""
        if self._is_reasoning:
            self._write("\n\n")
            self._is_reasoning = False
        self._write(self._safe(text))

    def end(self) -> None:
        """End the line."""
        if not self._last.endswith("\n"):
            self._write("\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._last = text or self._last

    def _safe(self, text: str) -> str:
        return shown(text) if self._is_terminal else text

    def say(self, text: str) -> None:
        """To standard output."""
        self._write(self._safe(text) + "\n")

    def remark(self, text: str) -> None:
        """For people only."""
        if self._is_terminal:
            print(shown(text), file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """To standard error."""
        print(self._safe(f"note: {text}"), file=sys.stderr, flush=True)

    def error(self, text: str) -> None:
        """To standard error."""
        print(self._safe(f"error: {text}"), file=sys.stderr, flush=True)
