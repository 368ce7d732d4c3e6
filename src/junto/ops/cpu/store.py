"""Where packed matrices live: in memory, or in a file that the next start maps.

A store is asked for one matrix after the other, in the order in which a model takes its weights; it
knows neither the model nor the file they come from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from junto._kernels import PackedMatrix, ThreadPool
from junto.formats.mapped_file import forget_pages
from junto.formats.tensor import Tensor

Progress = Callable[[int], None]
"""Told how many bytes of the source have been packed since the last call."""


def unseen(n_bytes: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a packed matrix holds: type, and [n_expert, n_out, n_in]."""

    name: str
    type: str
    n_expert: int
    n_out: int
    n_in: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the packed form."""
        return PackedMatrix.size(self.type, self.n_expert, self.n_out, self.n_in)


class Store(Protocol):
    """Makes packed matrices."""

    notes: list[str]

    def matrix(self, shape: Shape, experts: Sequence[Tensor], pool: ThreadPool) -> PackedMatrix:
        """The next matrix; `experts` are its stored parts, one an expert."""
        ...

    def finish(self) -> None:
        """All matrices are made."""
        ...

    def abandon(self) -> None:
        """No more will be made: leave nothing behind."""
        ...

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Wait for what was begun by `finish`; `tell` hears of (bytes done, bytes of all)."""
        ...


class InMemory:
    """Packs into memory of this process."""

    def __init__(self, progress: Progress = unseen) -> None:
        self.notes: list[str] = []
        self._progress = progress

    def matrix(self, shape: Shape, experts: Sequence[Tensor], pool: ThreadPool) -> PackedMatrix:
        """Pack the next matrix."""
        matrix = PackedMatrix(shape.type, shape.n_expert, shape.n_out, shape.n_in)
        for i, expert in enumerate(experts):
            rows = expert.data
            matrix.fill(i, rows, pool)
            forget_pages(rows)
            self._progress(rows.nbytes)
        return matrix

    def finish(self) -> None:
        """Nothing is left to do."""

    def abandon(self) -> None:
        """Nothing was begun."""

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """There is nothing to wait for."""
