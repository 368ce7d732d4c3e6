"""Where what was read becomes events: texts trimmed at their edges, calls with their arguments.

Newlines around reasoning and around content belong to the markup and are left out; those between
two stretches of content stay. Argument deltas of a call, joined, are one JSON object, always.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from junto.chat.events import Event, EventKind
from junto.chat.qwen import json_text
from junto.chat.qwen.schema import Types, parameter_types
from junto.chat.qwen.values import STRING, typed

Section = Literal["reasoning", "content"]
_NULLABLE: Types = frozenset({"string", "null"})
_MAX_NULL_CHARS = 64  # with blanks around it


def _may_be_null(text: str) -> bool:
    return len(text) <= _MAX_NULL_CHARS and len(text.strip()) <= len("null")


class _Trimmed:
    """Text without newlines at its edges, piece by piece."""

    def __init__(self) -> None:
        self._started = False
        self._n_held = 0

    def take(self, text: str) -> str:
        """What is certain to stand within the text."""
        if not self._started:
            text = text.lstrip("\n")
            self._started = bool(text)
        kept = text.rstrip("\n")
        if kept:
            kept = "\n" * self._n_held + kept
            self._n_held = 0
        self._n_held += len(text) - len(text.rstrip("\n"))
        return kept

    @property
    def is_empty(self) -> bool:
        """Whether there is none yet."""
        return not self._started

    def resume(self) -> None:
        """Set a later stretch apart from what came before."""
        self._n_held = max(self._n_held, int(self._started))


class Answer:
    """The events so far that nobody has taken yet."""

    def __init__(self) -> None:
        self.n_repair = 0
        self.n_call = 0
        self._events: list[Event] = []
        self._texts: dict[Section, _Trimmed] = {"reasoning": _Trimmed(), "content": _Trimmed()}

    def take(self) -> list[Event]:
        """The new events."""
        events, self._events = self._events, []
        return events

    def write(self, section: Section, text: str) -> None:
        """Add text to reasoning or content."""
        if text := self._texts[section].take(text):
            last = self._last(section)
            self._events.append(replace(last, text=last.text + text))

    def has(self, section: Section) -> bool:
        """Whether a section has any text."""
        return not self._texts[section].is_empty

    def resume(self, section: Section) -> None:
        """Begin another stretch of a section."""
        self._texts[section].resume()

    def repair(self, count: bool = True) -> None:
        """Count something that had to be mended."""
        self.n_repair += count

    def call(self, name: str) -> int:
        """Begin a call; its index."""
        self._events.append(Event("tool_call", index=self.n_call, name=name))
        self.n_call += 1
        return self.n_call - 1

    def arguments(self, index: int, text: str) -> None:
        """Add to the arguments of a call."""
        last = self._last("tool_call", index)
        self._events.append(replace(last, arguments=last.arguments + text))

    def _last(self, kind: EventKind, index: int = 0) -> Event:
        """The last event, taken off, if it is of this kind; else a new one."""
        if self._events and (self._events[-1].kind, self._events[-1].index) == (kind, index):
            return self._events.pop()
        return Event(kind, index=index)


class Arguments:
    """The arguments of one call while they are written.

    A string streams; a value that may be of another type waits for its end. Of parameters with the
    same name the first counts: it is out already.
    """

    def __init__(self, answer: Answer, name: str, parameters: Mapping[str, Any]) -> None:
        self.keys: set[str] = set()
        self._parameters = parameters
        self._answer = answer
        self._index = answer.call(name)
        self._types: Types | None = None
        self._streams = False
        self._dropped = False
        self._held: list[str] = []

    def begin(self, key: str) -> None:
        """Begin a parameter."""
        self._dropped = key in self.keys
        self._answer.repair(self._dropped)
        self._types = parameter_types(self._parameters, key)
        self._streams = False
        self._held = []
        if not self._dropped:
            self._key(key)
            if self._types is None or self._types == STRING:
                self._stream()

    def text(self, piece: str) -> None:
        """Add to the parameter's value."""
        if self._dropped:
            return
        if self._streams:
            self._emit(json_text.dumps(piece)[1:-1])
            return
        self._held.append(piece)
        if self._types == _NULLABLE and not _may_be_null("".join(self._held)):
            self._stream()

    def end(self) -> None:
        """End the parameter."""
        if self._dropped:
            return
        if self._streams:
            self._emit('"')
            return
        value = typed("".join(self._held), self._types)
        self._answer.repair(value.mended)
        self._emit(value.json)

    def whole(self, key: str, value: str) -> None:
        """A parameter at once, its value as JSON."""
        if key in self.keys:
            self._answer.repair()
            return
        self._key(key)
        self._emit(value)

    def may_take(self, key: str) -> bool:
        """Whether a parameter of this name may follow, as far as is known."""
        properties = self._parameters.get("properties")
        known = not isinstance(properties, Mapping) or key in properties
        return known and key not in self.keys

    def close(self) -> None:
        """End the arguments."""
        self._emit("}" if self.keys else "{}")

    def _key(self, key: str) -> None:
        self._emit((", " if self.keys else "{") + json_text.dumps(key) + ": ")
        self.keys.add(key)

    def _stream(self) -> None:
        self._streams = True
        self._emit('"' + json_text.dumps("".join(self._held))[1:-1])

    def _emit(self, text: str) -> None:
        if text:
            self._answer.arguments(self._index, text)
