"""Runs tiny models without the facade: from a file to a runner, and a record of the ops called."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from junto.engine.runner import Runner
from junto.models.loading import Blueprint, Weights, locate, open_file, take
from junto.ops.contract import Forward, Ops, StepCache, Weight
from junto.ops.reference import Reference
from junto.ops.views import F32, Batch

N_SLOT = 4
Ids = Sequence[int]


class Call(NamedTuple):
    """One op that a model called: its name, its first weight's name or "", and rows of x."""

    op: str
    weight: str
    n_row: int


class Recorder:
    """The reference backend, with a list of the calls of the ops that do the work."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._ops = Reference()

    def run(self, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        """Every op of the step is recorded."""
        return forward(cast(Ops, self), batch, cache)

    def __getattr__(self, op: str) -> Any:
        function: Callable[..., Any] = getattr(self._ops, op)
        if op in (
            "weight",
            "table",
            "sample",
            "name",
            "notes",
            "step",
            "loading",
            "is_keeping",
            "settle",
        ):
            return function

        def recorded(*args: Any, **kwargs: Any) -> Any:
            weight = next((arg.name for arg in args if isinstance(arg, Weight)), "")
            x = next(arg for arg in args if isinstance(arg, np.ndarray))
            self.calls.append(Call(op, weight, len(x)))
            return function(*args, **kwargs)

        return recorded


class Running(NamedTuple):
    """A runner with what it was made of."""

    runner: Runner
    blueprint: Blueprint
    weights: Weights


def running(path: Path, *, ops: Ops | None = None, n_ctx: int = 512) -> Running:
    """Load a file, with room for N_SLOT sequences."""
    blueprint = locate(open_file(path))
    ops = ops or Reference()
    weights = take(blueprint, ops)
    cache = blueprint.architecture.make_cache(blueprint.cfg, N_SLOT, n_ctx)
    runner = Runner(blueprint.architecture, blueprint.cfg, weights, ops, cache)
    return Running(runner, blueprint, weights)


def recorded(path: Path) -> tuple[Runner, Recorder]:
    """A runner whose ops are recorded."""
    recorder = Recorder()
    return running(path, ops=cast(Ops, recorder)).runner, recorder


def feed(runner: Runner, slot: int, ids: Iterable[int], step: int = 512) -> F32:
    """Feed one slot in steps -> logits after every token [n_tok, n_vocab]."""
    ids = [int(i) for i in ids]
    parts = [ids[start : start + step] for start in range(0, len(ids), step)]
    return np.concatenate([runner.step([(slot, part)], all_logits=True) for part in parts])


def logits(path: Path, ids: Iterable[int]) -> F32:
    """Logits of a fresh sequence by a model loaded anew."""
    runner = running(path).runner
    return feed(runner, runner.cache.open(), ids)


def error(got: F32, expected: F32) -> float:
    """Largest difference, over the largest |expected|."""
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / np.abs(expected).max())
