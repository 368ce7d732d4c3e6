"""A model that says what it is told to, for tests of the command line."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from junto.chat.tokenizer import Tokenizer
from junto.model import Piece
from tests.chat.vocabularies import tiny_tokenizer

ANSWER = ("It ", "is é", "", "ver.")


class FakeModel:
    """Records what it is asked and answers in fixed pieces."""

    def __init__(
        self,
        tokenizer: Tokenizer | None = None,
        *,
        pieces: Sequence[str] = ANSWER,
        fails_after: int | None = None,
        error: BaseException | None = None,
        pause_s: float = 0.0,
    ) -> None:
        self.tokenizer = tokenizer
        self.name = "fake.gguf"
        self.notes: tuple[str, ...] = ("2 tensors are not used",)
        self.loaded: list[tuple[Path, dict[str, Any]]] = []
        self.asked: list[tuple[list[int], dict[str, Any]]] = []
        self._pieces = pieces
        self._fails_after = fails_after
        self._error = error
        self._pause_s = pause_s

    def load(self, path: Path, **options: Any) -> "FakeModel":
        self.loaded.append((path, options))
        return self

    def generate(self, prompt: list[int], **options: Any) -> Iterator[Piece]:
        self.asked.append((prompt, options))
        for n, text in enumerate(self._pieces):
            if n == self._fails_after and self._error is not None:
                raise self._error
            time.sleep(self._pause_s)
            yield Piece(text, 100 + n, "stop" if n == len(self._pieces) - 1 else None)


def talking_model(**options: Any) -> FakeModel:
    """A fake model with the tiny tokenizer."""
    return FakeModel(tiny_tokenizer(), **options)
