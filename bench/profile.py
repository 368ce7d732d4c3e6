"""Where the time of a decode step and of a prompt goes, op by op.

    python -m bench.profile MODEL.gguf [-p 512] [--depth 32] [--streams 1] [--picture FILE.svg]

Each op is timed from outside, with the thread pool awake as in a real step; what is left of the
wall-clock is Python: the model's own code, views of the cache, and the clock itself (about a
microsecond an op). Steps that are looked on at are not planned, so decode steps are timed once more
as they really run: the kernel calls of a plan, and the rest. The last line is JSON, which
`bench.picture` draws too.
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np

import junto
from junto._kernels import Plan
from junto.engine.generation import PREFILL_STEP
from junto.engine.runner import Runner
from junto.measure.machine import processor
from junto.measure.onlooker import Onlooker
from junto.measure.places import Places
from junto.measure.software import versions
from junto.ops.contract import Ops
from junto.ops.cpu import Cpu, recorder

PYTHON = "python"


class Stopwatch(Onlooker):
    """Adds up the seconds of each op; the head's product goes by itself."""

    def __init__(self, ops: Ops, places: Places) -> None:
        super().__init__(ops)
        self.seconds: dict[str, float] = defaultdict(float)
        self._places = places

    def compute(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Time one op."""
        self._places.stream((*args, *kwargs.values()))
        name = f"{op} (head)" if op == "linear" and self._places.part == "head" else op
        start = time.perf_counter()
        result = super().compute(op, args, kwargs)
        self.seconds[name] += time.perf_counter() - start
        return result


class TimedPlan(Plan):
    """A plan that says how long its kernel calls took."""

    seconds: ClassVar[list[float]] = []

    def run(self) -> None:
        """Run it, timed."""
        start = time.perf_counter()
        super().run()
        self.seconds.append(time.perf_counter() - start)


def planned(runner: Runner, steps: Sequence[list[tuple[int, list[int]]]]) -> dict[str, float]:
    """Milliseconds of a step that runs as a plan, medians: its kernel calls, and the rest."""
    TimedPlan.seconds.clear()
    rest = []
    with patch.object(recorder, "Plan", TimedPlan):
        for work in steps:
            n_run, start = len(TimedPlan.seconds), time.perf_counter()
            runner.step(work)
            if len(TimedPlan.seconds) > n_run:  # else a plan was recorded
                rest.append(time.perf_counter() - start - TimedPlan.seconds[-1])
    return {"kernels": 1e3 * median(TimedPlan.seconds), PYTHON: 1e3 * median(rest)}


class Profiled:
    """A model whose ops are timed."""

    def __init__(self, model: junto.Model) -> None:
        runner = model.runner
        self._places = Places(runner.weights)
        self._watch = Stopwatch(runner.ops, self._places)
        self.runner = Runner(
            runner.architecture,
            runner.cfg,
            self._places.weights,
            self._watch.as_ops(),
            runner.cache,
        )

    def profile(self, steps: Sequence[list[tuple[int, list[int]]]]) -> dict[str, float]:
        """Milliseconds a step, by op, the largest first; `python` is what remains."""
        self._watch.seconds.clear()
        start = time.perf_counter()
        for work in steps:
            self._places.restart()
            self.runner.step(work)
        elapsed = time.perf_counter() - start
        seconds = {**self._watch.seconds, PYTHON: elapsed - sum(self._watch.seconds.values())}
        ranked = sorted(seconds.items(), key=lambda item: -item[1])
        return {name: 1e3 * s / len(steps) for name, s in ranked}


def measure(model: junto.Model, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The profiles of decode and prefill, each after one step to warm up."""
    profiled, cache = Profiled(model), model.runner.cache
    ids = np.random.default_rng(0).integers(2, model.config.n_vocab, 1 << 14).tolist()
    slots = [cache.open() for _ in range(options.streams)]
    for slot in slots:
        for first in range(0, options.depth, PREFILL_STEP):
            n = min(PREFILL_STEP, options.depth - first)
            model.runner.step([(slot, (ids * (first // len(ids) + 2))[first : first + n])])
    steps = [[(slot, [ids[i + slot]]) for slot in slots] for i in range(options.steps + 1)]
    profiled.profile(steps[:1])
    decode = profiled.profile(steps[1:])
    as_plan = planned(model.runner, steps)
    for slot in slots:
        cache.close(slot)
    prompts = []
    for _ in range(2):
        slot = cache.open()
        prompts.append(profiled.profile([[(slot, ids[: options.prompt])]]))
        cache.close(slot)
    streams = "1 stream" if options.streams == 1 else f"{options.streams} streams"
    return {
        f"decode step, {streams}, at {options.depth}": decode,
        "the same as a plan": as_plan,
        f"prefill {options.prompt}": prompts[-1],
    }


def table(profile: dict[str, float]) -> str:
    """A profile as Markdown, with each op's share."""
    total = sum(profile.values())
    rows = [f"| {op} | {ms:.3f} | {ms / total:.1%} |" for op, ms in profile.items()]
    return "\n".join(["| op | ms | share |", "|---|---|---|", *rows, f"| all | {total:.3f} | |"])


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", type=Path)
    parser.add_argument(
        "-p",
        "--prompt",
        type=int,
        default=512,
        choices=range(1, PREFILL_STEP + 1),
        metavar="N",
        help=f"tokens, at most {PREFILL_STEP}",
    )
    parser.add_argument("--depth", type=int, default=32, help="tokens before decoding")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--steps", type=int, default=16, help="steps of decoding")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--picture", type=Path, help="draw it too (.svg or .png)")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Profile a model."""
    options = parsed(words)
    model = junto.load(
        options.model, backend="cpu", n_threads=options.threads, n_slot=options.streams
    )
    model.settle()
    ops = model.runner.ops
    assert isinstance(ops, Cpu), "the cpu backend was asked for"
    report: dict[str, Any] = {
        "model": model.name,
        "machine": processor().name,
        "threads": ops.n_threads,
        "level": ops.level,
        "commit": versions()["commit"],
        "profiles": measure(model, options),
    }
    for name, profile in report["profiles"].items():
        print(f"{name}\n\n{table(profile)}\n")
    print(json.dumps(report))
    if options.picture:
        from bench.picture import draw_profiles

        draw_profiles(report, options.picture)


if __name__ == "__main__":
    main()
