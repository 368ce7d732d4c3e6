"""Attention of one decoded token, for each way of holding keys and values.

    python -m bench.kv_decode [--depth 8192] [--rounds 15]

One thread, several layers in turn, so that keys and values come from memory. The clock is the
thread's own processor time, and ways alternate: other processes on the machine blur it least so.
The table gives the median and its ratio to float16; the last line is JSON.
"""

import argparse
import json
import platform
import subprocess
import time

import numpy as np

from junto.cache import KV_NAMES, AttentionState, Cache, KVType
from junto.ops.cpu import Cpu
from junto.ops.views import F32, Batch

N_LAYER = 6
SHAPES = {"9 heads of 64 on 3": (9, 3, 64), "16 heads of 256 on 2": (16, 2, 256)}
"""SmolLM2-135M's attention, and Qwen3.5-35B-A3B's."""


class Filled:
    """A cache of one sequence, `depth` tokens deep."""

    def __init__(self, ops: Cpu, kv: KVType, n_head_kv: int, head_dim: int, depth: int) -> None:
        self._ops = ops
        layers = [AttentionState(n_head_kv, head_dim)] * N_LAYER
        self._cache = Cache(layers, n_slot=1, n_ctx=depth + 2, kv=kv)
        self._cache.open()
        rng = np.random.default_rng(0)
        for start in range(0, depth + 1, 512):
            n = min(512, depth + 1 - start)
            rows = rng.standard_normal((n, n_head_kv, head_dim)).astype(np.float32)
            self._step(rows, rows)
            self._cache.commit(self._batch)

    def decode(self, q: F32, rows: F32) -> float:
        """Microseconds a layer for one token, which is not kept."""
        start = time.thread_time_ns()
        self._step(q, rows)
        return (time.thread_time_ns() - start) / N_LAYER / 1e3

    def _step(self, q: F32, rows: F32) -> None:
        work = [(0, self._cache.length(0), range(len(rows)))]
        self._batch = Batch.pack(work, all_logits=False)
        self._cache.begin(self._batch)
        for layer in range(N_LAYER):
            view = self._cache.kv(layer, self._batch)
            self._ops.attention(q, rows, rows, view, scale=0.1)


def measure(shape: tuple[int, int, int], depth: int, n_round: int) -> dict[str, list[float]]:
    """Times of every round for each way."""
    n_head, n_head_kv, head_dim = shape
    ops = Cpu(n_threads=1)
    caches = {kv: Filled(ops, KVType(kv), n_head_kv, head_dim, depth) for kv in KV_NAMES}
    rng = np.random.default_rng(1)
    q = rng.standard_normal((1, n_head, head_dim)).astype(np.float32)
    row = rng.standard_normal((1, n_head_kv, head_dim)).astype(np.float32)
    times: dict[str, list[float]] = {kv: [] for kv in KV_NAMES}
    for _ in range(n_round):
        for kv, cache in caches.items():
            times[kv].append(cache.decode(q, row))
    return times


def main() -> None:
    """Print the table, then one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=8192, help="tokens before the decoded one")
    parser.add_argument("--rounds", type=int, default=15, help="measurements of each way")
    wanted = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    facts: dict[str, object] = {"machine": platform.machine(), "threads": 1, "commit": commit}
    facts["level"] = Cpu(1).level
    print(f"depth {wanted.depth:,}; {facts}\n")
    print("| shape | kv | µs a layer | to f16 |\n|---|---|---|---|")
    for name, shape in SHAPES.items():
        times = measure(shape, wanted.depth, wanted.rounds)
        half = np.median(times["f16"])
        facts[name] = {kv: round(float(np.median(t)), 1) for kv, t in times.items()}
        for kv, t in times.items():
            print(f"| {name} | {kv} | {np.median(t):.0f} | {np.median(t) / half:.2f} |", flush=True)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
