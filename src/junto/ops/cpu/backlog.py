"""Experts that no step has needed yet: packed while the model is idle, and a few after each step.

The first token waits for the experts it uses and for no other. What a running answer needs is
packed by its steps; what is left takes a tenth of their time at most, so that it ends in a long
answer too. Never beside a step: kernels share all processors and wait for their slowest piece. It
knows no file and no model.
"""

import time
from collections.abc import Callable
from threading import Lock
from weakref import WeakSet

from junto._kernels import ThreadPool
from junto.ops.cpu.stack import Stack

IDLE_S = 0.5
"""A model that has not stepped for so long is idle; a prompt's first step comes sooner."""

SHARE = 0.1
"""Of a step's time, what may follow it."""

_POLL_S = 0.02
_lock = Lock()


class Backlog:
    """The stacks of one model that may lack experts.

    Steps are of one thread; anything else may be called by any.
    """

    def __init__(self) -> None:
        self._stacks: list[Stack] = []
        self._is_stepping = False
        self._since = time.monotonic()
        with _lock:
            _living.add(self)

    def add(self, stack: Stack) -> None:
        """Take on a stack."""
        self._stacks.append(stack)

    @property
    def is_done(self) -> bool:
        """Whether all experts are known to be packed."""
        return not self._stacks

    @property
    def n_bytes(self) -> int:
        """Bytes of packed form that are still to be written."""
        return sum(stack.n_missing_bytes for stack in self._stacks)

    def pack_one(self, pool: ThreadPool) -> bool:
        """Pack an expert; False if none is missing."""
        for stack in self._stacks:
            if not stack.is_whole and stack.pack_one(pool):
                return True
        self._stacks = []
        return False

    def begin_step(self) -> None:
        """A step begins."""
        self._is_stepping, self._since = True, time.monotonic()

    def end_step(self, pool: ThreadPool) -> None:
        """It has ended: pack for a share of its time."""
        began = self._since
        self.rest()
        end = self._since + SHARE * (self._since - began)
        while self._stacks and time.monotonic() < end:
            self.pack_one(pool)

    def rest(self) -> None:
        """The model is idle from now on."""
        self._is_stepping, self._since = False, time.monotonic()

    def pack_while_idle(self, n_threads: int, goes_on: Callable[[], bool]) -> bool:
        """Pack until nothing is missing; False if `goes_on` ended it before.

        A step that begins waits for one expert at most, or shares the processors with it.
        """
        pool = ThreadPool(n_threads)
        while self.n_bytes and goes_on():
            if self._is_stepping or time.monotonic() - self._since < IDLE_S:
                time.sleep(_POLL_S)
            else:
                self.pack_one(pool)
        return self.n_bytes == 0


_living: WeakSet[Backlog] = WeakSet()


def n_bytes_to_come() -> int:
    """Bytes that models of this process are still to take: the system counts them as free."""
    with _lock:
        return sum(backlog.n_bytes for backlog in _living)
