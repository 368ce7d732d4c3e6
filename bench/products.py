"""Products of real sizes beside the peak of the level's 8-bit dot product, in alternation.

    python -m bench.products [--rounds 15] [--threads 1] [--rows 1,16,512]

For each type a matrix [2048, 2048] by some rows, and the experts of one layer (256 of 512, 8 for
each of 512 rows). Few rows read their weights from memory, so they are held against that: the table
has operations and bytes a second. JUNTO_ISA chooses the level. The last line is JSON.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from bench.compare import numbers
from junto import _kernels
from junto.formats.quant_types import TYPES
from junto.measure.machine import processor
from junto.measure.software import versions
from junto.ops.cpu.backend import choose_level
from junto.ops.cpu.processors import default_threads

NAMES = "Q8_0,Q4_0,Q4_K,Q5_K,Q6_K,MXFP4"
N_OUT = N_IN = 2048
N_EXPERT, N_USED, N_FF, N_TOK = 256, 8, 512, 512
N_COPY = 12
"""Copies of a matrix that rows meet in turn: together too large for the caches."""


@dataclass
class Case:
    """One product: what it is, its operations and bytes of weights, and how to run it."""

    name: str
    n_op: float
    n_byte: float
    run: Callable[[], None]
    seconds: list[float] = field(default_factory=list)

    def time(self) -> None:
        """Run it once."""
        start = time.perf_counter()
        self.run()
        self.seconds.append(time.perf_counter() - start)

    def figures(self, peak: float) -> dict[str, float | str]:
        """Medians; `peak` in operations a second."""
        s = median(self.seconds)
        rate = self.n_op / s
        return {
            "product": self.name,
            "gop_per_s": round(rate / 1e9, 1),
            "share": round(rate / peak, 3),
            "gb_per_s": round(self.n_byte / s / 1e9, 1),
        }


class Maker:
    """Makes cases of random weights and rows for one level and pool."""

    def __init__(self, level: str, n_threads: int) -> None:
        self.level, self.pool = level, _kernels.ThreadPool(n_threads)
        self._rng = np.random.default_rng(0)

    def packed(self, name: str, n_expert: int, n_out: int, n_in: int) -> _kernels.PackedMatrix:
        """Random bytes below 60, so that no scale is large."""
        weight = _kernels.PackedMatrix(name, n_expert, n_out, n_in)
        shape = (n_out, TYPES[name].n_bytes_row(n_in))
        rows = self._rng.integers(0, 60, shape, dtype=np.uint8)
        for expert in range(n_expert):
            weight.fill(expert, rows, self.pool)
        return weight

    def linear(self, name: str, n_row: int) -> Case:
        """A product with each copy of a matrix in turn."""
        weights = [self.packed(name, 1, N_OUT, N_IN) for _ in range(N_COPY if n_row < 64 else 1)]
        x = self._rng.standard_normal((n_row, N_IN), dtype=np.float32)
        y = np.empty((n_row, N_OUT), np.float32)

        def run() -> None:
            for weight in weights:
                _kernels.linear(self.level, self.pool, weight, x, None, y)

        n_op = 2 * n_row * N_IN * N_OUT * len(weights)
        return Case(f"{name}, {n_row} rows", n_op, sum(w.n_bytes for w in weights), run)

    def experts(self, name: str) -> Case:
        """A layer of experts, each row choosing its own at random."""
        gate, up = (self.packed(name, N_EXPERT, N_FF, N_IN) for _ in range(2))
        down = self.packed(name, N_EXPERT, N_IN, N_FF)
        x = self._rng.standard_normal((N_TOK, N_IN), dtype=np.float32)
        y = np.empty_like(x)
        chosen = [self._rng.permutation(N_EXPERT)[:N_USED] for _ in range(N_TOK)]
        ids = np.sort(np.array(chosen, np.int64), axis=1)
        weights = np.full(ids.shape, 1 / N_USED, np.float32)

        def run() -> None:
            forms = (gate, up, down, 0.0, 0.0, None, None, None)
            _kernels.experts(self.level, self.pool, x, ids, weights, *forms, y)

        n_byte = sum(w.n_bytes for w in (gate, up, down))
        return Case(f"{name}, experts", 2.0 * N_TOK * N_USED * 3 * N_FF * N_IN, n_byte, run)


def main(words: Sequence[str] | None = None) -> None:
    """Print the table, then one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.products", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--types", default=NAMES)
    parser.add_argument("--rows", type=numbers, default=[1, 16, 512])
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(words)
    level = choose_level(os.environ.get("JUNTO_ISA"))
    maker, peaks = Maker(level, options.threads), []
    cases = [maker.linear(name, n) for name in options.types.split(",") for n in options.rows]
    cases += [maker.experts(name) for name in options.types.split(",")]
    maker.pool.wake()
    for _ in range(options.rounds):
        peaks += _kernels.peak_dot(level, maker.pool, 1)
        for case in cases:
            case.time()
    maker.pool.rest()
    peak = median(peaks)
    print(f"{level}, {options.threads} threads, peak {peak / 1e9:.0f} Gop/s\n")
    print("| product | Gop/s | of the peak | GB/s |\n|---|---|---|---|")
    rows = [case.figures(peak) for case in cases]
    for row in rows:
        share = f"{float(row['share']):.0%}"
        print(f"| {row['product']} | {row['gop_per_s']} | {share} | {row['gb_per_s']} |")
    report = {"machine": processor().name, "level": level, "threads": options.threads}
    report["commit"] = versions()["commit"]
    print(f"\n{json.dumps(report | {'peak_gop_per_s': peak / 1e9, 'rows': rows})}")


if __name__ == "__main__":
    main()
