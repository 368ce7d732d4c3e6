"""What is measured: an engine that feeds tokens of several sequences, ours or the rival's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import junto


class Engine(Protocol):
    """A model that is loaded, and the sequences it holds."""

    def clear(self) -> None:
        """Forget every sequence."""
        ...

    def step(self, work: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        """Feed (sequence, position, token ids); logits after each sequence's last token."""
        ...


class Ours:
    """Our model behind the rival's interface, with its own best settings."""

    def __init__(self, path: Path, n_threads: int | None, n_stream: int) -> None:
        self.model = junto.load(path, backend="cpu", n_threads=n_threads, n_slot=n_stream)
        self.model.settle()
        self._slots: dict[int, int] = {}

    def clear(self) -> None:
        """Forget every sequence."""
        for slot in self._slots.values():
            self.model.runner.cache.close(slot)
        self._slots = {}

    def step(self, work: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        """Feed (sequence, position, token ids); positions follow from what was fed."""
        for sequence, _, _ in work:
            if sequence not in self._slots:
                self._slots[sequence] = self.model.runner.cache.open()
        self.model.runner.step([(self._slots[sequence], ids) for sequence, _, ids in work])
