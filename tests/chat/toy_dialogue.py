"""A family with the least markup, so that what holds for all can be tested without any of them.

It writes with the tiny vocabulary, in which the id of an ASCII letter is its byte: <think> and
</think> around reasoning, <|im_start|> before the arguments of a call, <|im_end|> at the end.
"""

from collections.abc import Sequence
from typing import Literal

from junto.chat.dialogue import Turn
from junto.chat.events import Event, EventKind
from junto.chat.template import Message
from tests.chat.vocabularies import tiny_tokenizer

TINY = tiny_tokenizer()


def added(text: str) -> int:
    found = TINY.added_id(text)
    assert found is not None
    return found


CALL, END, OPEN, CLOSE = map(added, ("<|im_start|>", "<|im_end|>", "<think>", "</think>"))
NAME = "look"


def ids_of(text: str) -> list[int]:
    """Ids of ASCII letters, one each, with the toy's markup."""
    return [i for i in TINY.encode(text, special=True) for i in (letters_of(i) or [i])]


def letters_of(token_id: int) -> list[int]:
    return [] if TINY.is_added(token_id) else list(TINY.token_bytes(token_id))


class ToyParser:
    """A `Parser` of the toy family; `close_reasoning` writes a full stop first."""

    n_repair = 0

    def __init__(self, thinks: bool) -> None:
        self._kind: EventKind = "reasoning" if thinks else "content"
        self._n_call = 0
        self._held = ""

    def feed(self, token_id: int) -> list[Event]:
        """Holds a blank back until it knows that something follows, as real parsers do."""
        if token_id in (OPEN, CLOSE):
            self._kind = "reasoning" if token_id == OPEN else "content"
            return []
        if token_id == CALL:
            self._kind = "tool_call"
            self._n_call += 1
            return [*self._rest(), Event("tool_call", index=self._n_call - 1, name=NAME)]
        text, self._held = self._held + TINY.decode([token_id]), ""
        if text.endswith(" "):
            text, self._held = text[:-1], " "
        return self._told(text)

    def _told(self, text: str) -> list[Event]:
        if not text:
            return []
        if self._kind == "tool_call":
            return [Event("tool_call", index=self._n_call - 1, arguments=text)]
        return [Event(self._kind, text)]

    def _rest(self) -> list[Event]:
        rest, self._held = self._held, ""
        return [Event("content", rest)] if rest else []

    def finish(self, reason: Literal["stop", "length"] = "stop") -> list[Event]:
        rest, self._held = self._held, ""
        calls = self._n_call > 0 and reason == "stop"
        return [*self._told(rest), Event("finish", reason="tool_calls" if calls else reason)]

    def close_reasoning(self) -> list[int]:
        return [ord("."), CLOSE] if self._kind == "reasoning" else []


class ToyDialogue:
    """A `Dialogue` of the toy family: contents in a row, and <think> when it is asked."""

    notes = ()
    stop_ids = frozenset({END})

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def render(self, messages: Sequence[Message], turn: Turn) -> list[int]:
        self.turns.append(turn)
        ids = [i for message in messages for i in TINY.encode(message["content"], special=False)]
        return [*ids, OPEN] if turn.enable_thinking else ids

    def parser(self, messages: Sequence[Message] = (), turn: Turn | None = None) -> ToyParser:
        return ToyParser(thinks=turn is not None and bool(turn.enable_thinking))
