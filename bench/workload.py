"""Pieces of work that both engines are given in turn, each timed for itself."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.engine import Engine

N_BATCH = 512
"""Tokens of a prompt in one step."""

N_WARM = 2


def feed(engine: Engine, sequence: int, ids: Sequence[int]) -> None:
    """A prompt from its beginning, in steps."""
    for first in range(0, len(ids), N_BATCH):
        engine.step([(sequence, first, ids[first : first + N_BATCH])])


@dataclass(frozen=True, slots=True)
class Prefill:
    """One prompt, from nothing."""

    ids: Sequence[int]

    @property
    def name(self) -> str:
        """The work for people."""
        return f"prefill {len(self.ids)}"

    def begin(self, engine: Engine) -> None:
        """Every run begins anew, so there is only warming up to do."""
        self.run(engine)

    def run(self, engine: Engine) -> float:
        """Tokens a second."""
        engine.clear()
        start = time.perf_counter()
        feed(engine, 0, self.ids)
        return len(self.ids) / (time.perf_counter() - start)


@dataclass(slots=True)
class Decode:
    """Some sequences that go on together, a token each a step, from run to run.

    ids      tokens that prompts and steps are cut from
    depth    tokens of each prompt
    n_step   steps of one run
    """

    ids: Sequence[int]
    n_stream: int
    depth: int
    n_step: int
    _positions: dict[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The work for people."""
        streams = "1 stream" if self.n_stream == 1 else f"{self.n_stream} streams"
        return f"decode, {streams}, at {self.depth}"

    def begin(self, engine: Engine) -> None:
        """Give each sequence its prompt, and warm up."""
        engine.clear()
        for stream in range(self.n_stream):
            feed(engine, stream, self._cut(stream, self.depth))
        self._positions[id(engine)] = self.depth
        for _ in range(N_WARM):
            self._step(engine)

    def run(self, engine: Engine) -> float:
        """Tokens a second of all sequences."""
        start = time.perf_counter()
        for _ in range(self.n_step):
            self._step(engine)
        return self.n_stream * self.n_step / (time.perf_counter() - start)

    def _step(self, engine: Engine) -> None:
        pos = self._positions[id(engine)]
        engine.step([(s, pos, self._cut(s + pos, 1)) for s in range(self.n_stream)])
        self._positions[id(engine)] = pos + 1

    def _cut(self, first: int, n: int) -> list[int]:
        return [self.ids[(first + i) % len(self.ids)] for i in range(n)]


Workload = Prefill | Decode


def alternate(
    ours: Engine, theirs: Engine, work: Workload, n_pair: int
) -> list[tuple[float, float]]:
    """Tokens a second in pairs; who goes first changes from pair to pair."""
    work.begin(ours)
    work.begin(theirs)
    pairs = []
    for i in range(n_pair):
        if i % 2 == 0:
            first = _rested(ours, work)
            pairs.append((first, _rested(theirs, work)))
        else:
            second = _rested(theirs, work)
            pairs.append((_rested(ours, work), second))
    return pairs


REST_S = 0.5
"""Threads of an engine may spin for a while after its work, on processors that the other needs."""


def _rested(engine: Engine, work: Workload) -> float:
    time.sleep(REST_S)
    return work.run(engine)
