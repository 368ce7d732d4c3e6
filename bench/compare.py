"""Our speed against llama.cpp's on one file, in alternation, in one process.

    python -m bench.compare MODEL.gguf [--pairs 15] [--streams 1,4,16]

A shared machine drifts by half within minutes, so only ratios of neighbouring measurements count:
each pair runs ours, then theirs, the same work. The table gives the median of both and of the
ratio with its quartiles; the last line is JSON.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from bench.rival import LlamaCpp
from junto.model import assemble
from junto.models.loading import locate, open_file
from junto.ops.cpu import Cpu

N_DECODE = 8
"""Steps of decoding in one measurement."""


class Ours:
    """Our model behind the rival's interface."""

    def __init__(self, path: Path, n_threads: int, n_stream: int) -> None:
        self.model = assemble(locate(open_file(path)), Cpu(n_threads), 1024, n_stream)
        self._slots: dict[int, int] = {}

    def clear(self) -> None:
        """Forget every sequence."""
        for slot in self._slots.values():
            self.model.runner.cache.close(slot)
        self._slots = {}

    def step(self, work: list[tuple[int, int, list[int]]]) -> None:
        """Feed (sequence, position, token ids)."""
        for sequence, _, _ in work:
            if sequence not in self._slots:
                self._slots[sequence] = self.model.runner.cache.open()
        self.model.runner.step([(self._slots[sequence], ids) for sequence, _, ids in work])


def prefill(engine: Ours | LlamaCpp, ids: list[int]) -> float:
    """Tokens a second for one prompt."""
    engine.clear()
    start = time.perf_counter()
    for first in range(0, len(ids), 512):
        engine.step([(0, first, ids[first : first + 512])])
    return len(ids) / (time.perf_counter() - start)


def decode(engine: Ours | LlamaCpp, ids: list[int], n_stream: int) -> float:
    """Tokens a second of all streams, after a prompt of 32 each."""
    engine.clear()
    for stream in range(n_stream):
        engine.step([(stream, 0, ids[stream : stream + 32])])
    engine.step([(s, 32, [ids[s]]) for s in range(n_stream)])
    start = time.perf_counter()
    for i in range(N_DECODE):
        engine.step([(s, 33 + i, [ids[i + s]]) for s in range(n_stream)])
    return n_stream * N_DECODE / (time.perf_counter() - start)


def alternate(
    ours: Ours, theirs: LlamaCpp, work: Callable[[Ours | LlamaCpp], float], n_pair: int
) -> tuple[list[float], list[float]]:
    """Measure in pairs, after one of each to warm up."""
    work(ours)
    work(theirs)
    pairs = [(work(ours), work(theirs)) for _ in range(n_pair)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def summary(name: str, ours: list[float], theirs: list[float]) -> dict[str, object]:
    """Print a row; give it as JSON values."""
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"| {name} | {a:.2f} | {b:.2f} | {middle:.2f} ({low:.2f}-{high:.2f}) |", flush=True)
    return {"work": name, "ours": a, "theirs": b, "ratio": middle, "quartiles": [low, high]}


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--streams", default="1,4,16")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    streams = [int(s) for s in options.streams.split(",")]
    ours = Ours(options.model, options.threads, max(streams))
    theirs = LlamaCpp(options.model, options.threads, 1024, max(streams))
    rng = np.random.default_rng(0)
    ids = rng.integers(2, ours.model.config.n_vocab, options.prompt + 64).tolist()

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    print(
        f"{options.model.name}, {options.threads} threads, {platform.machine()}, junto {commit}\n"
    )
    print("| work | junto tok/s | llama.cpp tok/s | ratio, median (quartiles) |\n|---|---|---|---|")
    rows = [
        summary(
            f"prefill {options.prompt}",
            *alternate(ours, theirs, partial(prefill, ids=ids[: options.prompt]), options.pairs),
        )
    ]
    for n in streams:
        work = partial(decode, ids=ids, n_stream=n)
        rows.append(summary(f"decode, {n} streams", *alternate(ours, theirs, work, options.pairs)))
    print()
    print(json.dumps({"model": options.model.name, "commit": commit, "rows": rows}))
    theirs.close()


if __name__ == "__main__":
    main()
