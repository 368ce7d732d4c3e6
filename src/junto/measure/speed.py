"""How fast a loaded model takes a prompt and writes, with one or several sequences at once.

Tokens are random and fed, not sampled: what is measured is the model. The first run of each kind is
not timed; it warms up, and its work is counted.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from junto.engine.generation import PREFILL_STEP
from junto.engine.runner import Runner
from junto.errors import RequestError
from junto.measure.spread import Spread
from junto.measure.work import Counting, Work


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing to measure.

    kind       "prefill": `n_tok` tokens of a prompt; "decode": `n_tok` steps, a token a sequence
    n_stream   sequences in the batch
    depth      tokens that each holds before
    """

    kind: str
    n_tok: int
    n_stream: int = 1
    depth: int = 0

    @property
    def name(self) -> str:
        """The test for people."""
        streams = f", {self.n_stream} streams" if self.n_stream > 1 else ""
        depth = f" at {self.depth}" if self.depth else ""
        return f"{self.kind} {self.n_tok}{streams}{depth}"

    @property
    def n_token(self) -> int:
        """Tokens of one run, of all sequences."""
        return self.n_tok * self.n_stream


@dataclass(frozen=True, slots=True)
class Result:
    """What a test gave.

    seconds   of each run
    work      of one run
    """

    test: Workload
    seconds: tuple[float, ...]
    work: Work

    def spread(self, amount: float) -> Spread:
        """An amount that one run takes, a second."""
        return Spread.of([amount / s for s in self.seconds])

    @property
    def tokens_per_s(self) -> Spread:
        """Tokens a second, of all sequences together."""
        return self.spread(self.test.n_token)

    @property
    def gop_per_s(self) -> float:
        """Multiplications and additions a second, in thousand millions, at the median."""
        return self.spread(self.work.n_operation).median / 1e9

    @property
    def gb_per_s(self) -> float:
        """Bytes read a second, in thousand millions, at the median."""
        return self.spread(self.work.n_bytes).median / 1e9

    def as_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "kind": self.test.kind,
            "n_tok": self.test.n_tok,
            "n_stream": self.test.n_stream,
            "depth": self.test.depth,
            "tokens_per_s": self.tokens_per_s.as_json(),
            "gop_per_s": round(self.gop_per_s, 3),
            "gb_per_s": round(self.gb_per_s, 3),
            "mb_per_run": round(self.work.n_bytes / 1e6, 3),
            "gop_per_run": round(self.work.n_operation / 1e9, 6),
        }


def measure(
    runner: Runner,
    test: Workload,
    n_rep: int,
    seed: int = 0,
    ran: Callable[[], None] = lambda: None,
) -> Result:
    """Run a test `n_rep` times, after once for its work; `ran` is told of each run.

    Every run begins at the test's depth where the cache can go back to it; else (DeltaNet, sliding
    windows) where the last one ended. RequestError where a run does not fit the context.
    """
    if test.depth + test.n_tok > runner.cache.n_ctx:
        raise RequestError(
            f"{test.name}: needs {test.depth + test.n_tok:,} tokens of context, the model has "
            f"{runner.cache.n_ctx:,}; ask for fewer"
        )
    runner.ops.settle()  # packing is not what is timed
    rng = np.random.default_rng(seed)
    with _filled(runner, test, rng) as slots:
        counting = Counting(runner.ops)
        counted = Runner(
            runner.architecture, runner.cfg, runner.weights, counting.as_ops(), runner.cache
        )
        _run(counted, test, slots, rng)
        ran()
        seconds = []
        for _ in range(n_rep):
            _go_back(runner, test, slots, rng)
            seconds.append(_run(runner, test, slots, rng))
            ran()
    return Result(test, tuple(seconds), counting.work)


@contextmanager
def _filled(runner: Runner, test: Workload, rng: np.random.Generator) -> Iterator[list[int]]:
    """Slots of the test's sequences, each holding `depth` tokens."""
    slots = [runner.cache.open() for _ in range(test.n_stream)]
    try:
        for slot in slots:
            _feed(runner, slot, _ids(runner, rng, test.depth))
        yield slots
    finally:
        for slot in slots:
            runner.cache.close(slot)


def _go_back(runner: Runner, test: Workload, slots: list[int], rng: np.random.Generator) -> None:
    for i, slot in enumerate(slots):
        if test.depth and (_truncated(runner, slot, test.depth) or _fits(runner, slot, test)):
            continue
        runner.cache.close(slot)
        slots[i] = runner.cache.open()
        _feed(runner, slots[i], _ids(runner, rng, test.depth))


def _truncated(runner: Runner, slot: int, n_tok: int) -> bool:
    try:
        runner.cache.truncate(slot, n_tok)
    except RequestError:
        return False
    return True


def _fits(runner: Runner, slot: int, test: Workload) -> bool:
    return runner.cache.length(slot) + test.n_tok <= runner.cache.n_ctx


def _run(runner: Runner, test: Workload, slots: Sequence[int], rng: np.random.Generator) -> float:
    """Seconds of one run."""
    ids = [_ids(runner, rng, test.n_tok) for _ in slots]
    start = time.perf_counter()
    if test.kind == "prefill":
        for slot, prompt in zip(slots, ids, strict=True):
            _feed(runner, slot, prompt)
    else:
        for i in range(test.n_tok):
            runner.step([(slot, row[i : i + 1]) for slot, row in zip(slots, ids, strict=True)])
    return time.perf_counter() - start


def _feed(runner: Runner, slot: int, ids: list[int]) -> None:
    for start in range(0, len(ids), PREFILL_STEP):
        runner.step([(slot, ids[start : start + PREFILL_STEP])])


def _ids(runner: Runner, rng: np.random.Generator, n: int) -> list[int]:
    ids: list[int] = rng.integers(0, runner.cfg.n_vocab, n).tolist()
    return ids
