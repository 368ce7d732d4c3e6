"""Answers on their way to the caller: tokens of the engine read as text, or as events of a chat.

Invariants: whatever is yielded for a token depends on no later one; closing an answer early ends
its request. Knows neither models nor files.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any, Protocol

from junto.chat.answer import Answer
from junto.chat.events import Event, message_of
from junto.engine.generation import FinishReason, Generated

Tokens = Generator[Generated, None, None]


class Piece(str):
    """The text that one token made certain; it may be empty.

    token_id        the token
    finish_reason   on the last piece: "stop" (an end token or a stop string) or "length"
    """

    __slots__ = ("finish_reason", "token_id")
    token_id: int
    finish_reason: FinishReason | None

    def __new__(cls, text: str, token_id: int, finish_reason: FinishReason | None) -> "Piece":
        """A piece of text with its token."""
        piece = super().__new__(cls, text)
        piece.token_id = token_id
        piece.finish_reason = finish_reason
        return piece


class Decoder(Protocol):
    """Turns tokens into text, and says when a stop string was complete."""

    @property
    def stopped(self) -> bool:
        """Whether a stop string was complete."""
        ...

    def feed(self, token_id: int) -> str:
        """The text that this token makes certain."""
        ...

    def finish(self) -> str:
        """What was held back."""
        ...


class ContentDecoder:
    """The content of an answer, without its reasoning and its calls of tools."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    def stopped(self) -> bool:
        """Whether a stop string was complete."""
        return self._answer.stopped

    def feed(self, token_id: int) -> str:
        """The content that this token makes certain."""
        return _content(self._answer.feed(token_id))

    def finish(self) -> str:
        """The content that was held back."""
        return _content(self._answer.finish("stop"))


class NoDecoder:
    """For files without a tokenizer: every text is empty."""

    stopped = False

    def feed(self, token_id: int) -> str:
        """Nothing."""
        return ""

    def finish(self) -> str:
        """Nothing."""
        return ""


def _content(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if event.kind == "content")


def pieces(tokens: Tokens, decoder: Decoder) -> Iterator[Piece]:
    """One piece a token, up to the end of the answer or a stop string."""
    with closing(tokens):
        for token in tokens:
            text, reason = decoder.feed(token.token_id), token.finish_reason
            if decoder.stopped:
                reason = "stop"
            elif reason is not None:
                text += decoder.finish()
                reason = "stop" if decoder.stopped else reason
            yield Piece(text, token.token_id, reason)
            if reason is not None:
                return


def _events(tokens: Tokens, answer: Answer, told: list[int]) -> Generator[Event, None, None]:
    """The events of an answer; its tokens go into `told` as they come."""
    with closing(tokens):
        for token in tokens:
            told.append(token.token_id)
            yield from answer.feed(token.token_id)
            if answer.stopped or token.finish_reason is not None:
                yield from answer.finish(token.finish_reason or "stop")
                return


class Reply(Iterator[Event]):
    """The answer to a conversation: an iterator of its events, the last of which is `finish`.

    prompt_ids   the conversation as the model read it
    token_ids    what it has generated so far, markup and forced tokens included

    Nothing is computed before the first event is asked for. `close`, leaving a `with` block, or
    dropping the reply ends the answer where it stands and frees its seat in the cache.
    """

    def __init__(self, prompt_ids: Sequence[int], tokens: Tokens, answer: Answer) -> None:
        self.prompt_ids = prompt_ids
        self.token_ids: list[int] = []
        self._tokens = tokens
        self._answer = answer
        self._told: list[Event] = []
        # Not a method: a generator that holds its reply would keep the seat until a collection.
        self._events = _events(tokens, answer, self.token_ids)

    def __next__(self) -> Event:
        event = next(self._events)
        self._told.append(event)
        return event

    def close(self) -> None:
        """End the answer; what it has told stays."""
        self._events.close()
        self._tokens.close()

    def __enter__(self) -> "Reply":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message of the events told so far, ready to go into the conversation."""
        return message_of(self._told)

    @property
    def n_repair(self) -> int:
        """What had to be mended in the answer's markup so far."""
        return self._answer.n_repair
