"""A model that says what it is told to, for tests of the command line."""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from junto.chat.answer import Answer
from junto.chat.events import Event
from junto.chat.tokenizer import Tokenizer
from junto.engine.generation import Generated
from junto.errors import TextError
from junto.reply import Piece, Reply
from junto.text import Text
from tests.chat.vocabularies import tiny_tokenizer

ANSWER = ("It ", "is é", "", "ver.")
FIRST_ID = 100


class ScriptedParser:
    """Tells the nth event for the nth token; an empty text is no event."""

    n_repair = 0

    def __init__(self, script: Sequence[str | Event]) -> None:
        self._events = [Event("content", e) if isinstance(e, str) else e for e in script]

    def feed(self, token_id: int) -> list[Event]:
        event = self._events[token_id - FIRST_ID]
        return [] if event == Event("content") else [event]

    def finish(self, reason: Literal["stop", "length"] = "stop") -> list[Event]:
        return [Event("finish", reason=reason)]

    def close_reasoning(self) -> list[int]:
        return []


class FakeSeat:
    """A conversation's place in a cache that is not there."""

    n_kept = 0

    def close(self) -> None:
        pass


class FakeModel:
    """Records what it is asked and answers in fixed pieces, which may be events of a chat."""

    def __init__(
        self,
        tokenizer: Tokenizer | None = None,
        *,
        pieces: Sequence[str | Event] = ANSWER,
        ends_by: Literal["stop", "length"] = "stop",
        fails_after: int | None = None,
        error: BaseException | None = None,
        pause_s: float = 0.0,
    ) -> None:
        self.name = "fake.gguf"
        self.notes: tuple[str, ...] = ("2 tensors are not used",)
        self.n_ctx = 4096
        self.is_demo = False
        self.is_keeping = False
        self.n_settled = 0
        self.loaded: list[tuple[Path, dict[str, Any]]] = []
        self.asked: list[tuple[list[int], dict[str, Any]]] = []
        self._text = Text(self.name, tokenizer) if tokenizer else None
        self._pieces = pieces
        self._ends_by = ends_by
        self._fails_after = fails_after
        self._error = error
        self._pause_s = pause_s

    def settle(self, tell: object = None) -> None:
        """Make the file for the next start, where there is to be one."""
        self.n_settled += 1

    def load(self, path: Path, **options: Any) -> "FakeModel":
        self.loaded.append((path, options))
        return self

    @property
    def text(self) -> Text:
        if self._text is None:
            raise TextError(f"{self.name}: no tokenizer in the file")
        return self._text

    def conversation(self) -> FakeSeat:
        return FakeSeat()

    def generate(self, prompt: list[int], **options: Any) -> Iterator[Piece]:
        self.asked.append((prompt, options))
        for token in self._tokens():
            text = str(self._pieces[token.token_id - FIRST_ID])
            yield Piece(text, token.token_id, token.finish_reason)

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Reply:
        prompt = self.text.render(messages)
        self.asked.append((prompt, options))
        return Reply(prompt, self._tokens(), Answer(ScriptedParser(self._pieces)))

    def _tokens(self) -> Generator[Generated, None, None]:
        for n in range(len(self._pieces)):
            if n == self._fails_after and self._error is not None:
                raise self._error
            time.sleep(self._pause_s)
            yield Generated(FIRST_ID + n, self._ends_by if n == len(self._pieces) - 1 else None)


def talking_model(**options: Any) -> FakeModel:
    """A fake model with the tiny tokenizer."""
    return FakeModel(tiny_tokenizer(), **options)
