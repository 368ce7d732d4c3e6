"""Where packed matrices live: in memory, or in a file that the next start maps.

A store is asked for one matrix after the other, in the order in which a model takes its weights; it
knows neither the model nor the file they come from.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from junto._kernels import PackedMatrix, ThreadPool
from junto.errors import JuntoError
from junto.formats.tensor import Tensor
from junto.ops.cpu.background import Background
from junto.ops.cpu.backlog import Backlog
from junto.ops.cpu.stack import Stack

Progress = Callable[[int], None]
"""Told how many bytes of the source a load has packed since the last call."""


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
    """Makes packed matrices; stacks of experts come without their experts, see `backlog`."""

    notes: list[str]
    backlog: Backlog

    @property
    def is_keeping(self) -> bool:
        """Whether something is being made for the next start."""
        ...

    def matrix(self, shape: Shape, experts: Tensor | Sequence[Tensor], pool: ThreadPool) -> Stack:
        """The next matrix; `experts` are its stored parts, one an expert."""
        ...

    def finish(self, n_threads: int) -> None:
        """All matrices are asked for; what is left may be done by so many threads."""
        ...

    def abandon(self) -> None:
        """No more will be made: leave nothing behind."""
        ...

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Pack what is left and wait until it is kept; `tell` hears of (bytes done, of all)."""
        ...


class InMemory:
    """Packs into memory of this process."""

    is_keeping = False

    def __init__(self, progress: Progress = unseen) -> None:
        self.notes: list[str] = []
        self.backlog = Backlog()
        self._progress = progress
        self._n_threads = 1

    def matrix(self, shape: Shape, experts: Tensor | Sequence[Tensor], pool: ThreadPool) -> Stack:
        """Pack the next matrix, or put a stack of several off."""
        stack = Stack(PackedMatrix(shape.type, shape.n_expert, shape.n_out, shape.n_in), experts)
        if shape.n_expert > 1:
            self.backlog.add(stack)
        else:
            self._progress(stack.pack_one(pool))
        return stack

    def finish(self, n_threads: int) -> None:
        """Begin to pack while the model is idle, as long as it lives."""
        self._n_threads = n_threads
        self.backlog.rest()
        backlog, myself = self.backlog, weakref.ref(self)

        def work(given_up: Event) -> None:
            with suppress(JuntoError):  # whoever needs that expert is told
                backlog.pack_while_idle(
                    n_threads, lambda: myself() is not None and not given_up.is_set()
                )

        if backlog.n_bytes:
            Background(work, "junto-packing", is_waited_for=False)

    def abandon(self) -> None:
        """Nothing was begun."""

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Pack what is left."""
        total, pool = self.backlog.n_bytes, ThreadPool(self._n_threads)
        while self.backlog.pack_one(pool):
            if tell is not None:
                tell(total - self.backlog.n_bytes, total)
