"""Our quantiser beside ggml_quantize_chunk: error left, and speed on one thread.

    python -m bench.quantise [--types Q4_K,Q6_K] [--rounds 5]

Prints Markdown tables: the ratio of errors, sum of w (x - q)^2 over all rows, for every kind of
data of tests/quantize, and the ratio of speeds. Speed is by the CPU time of the thread, the best of
several rounds taken in alternation, so that other work on the machine counts little. The last line
is JSON. Needs llama-cpp-python, or a folder that holds its package on PYTHONPATH.
"""

import argparse
import json
import platform
import subprocess
import time
from collections.abc import Callable

import numpy as np

from junto import _kernels
from junto.formats.quant_types import TYPES
from junto.quantize import quantize
from tests.oracle import ggml_quantize
from tests.quantize.data_kinds import IMPORTANCES, KINDS, error, exponential, normal
from tests.tiny.random_weights import F32

N_ROW, N = 128, 1536
"""The rows of the speed table: 0.8 MB of float32, which stay in cache."""


def error_ratio(name: str, kind: str, importance: str) -> float | None:
    """Our error over ggml's; None where both are zero."""
    rows, weights = KINDS[kind](), IMPORTANCES[importance]()
    ours = error(name, quantize(name, rows, weights), rows, weights)
    theirs = ggml_quantize.ggml_error(name, kind, importance)
    return None if ours == theirs == 0 else round(ours / theirs, 4)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Seconds of this thread."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def speeds(name: str, weights: F32 | None, n_round: int) -> tuple[float, float]:
    """Million values a second: ours, ggml's."""
    rows = normal("speed", (N_ROW, N)) * np.float32(0.02)
    out = np.empty((N_ROW, TYPES[name].n_bytes_row(N)), np.uint8)
    pool, level = _kernels.ThreadPool(1), _kernels.levels()[0]
    rounds = [
        (
            cpu_seconds(lambda: _kernels.quantize(level, pool, name, rows, weights, out)),
            cpu_seconds(lambda: ggml_quantize.quantize(name, rows, weights, out)),
        )
        for _ in range(n_round)
    ]
    ours, theirs = (rows.size / min(seconds) / 1e6 for seconds in zip(*rounds, strict=True))
    return ours, theirs


def error_table(names: list[str], importance: str) -> dict[str, dict[str, float | None]]:
    """Print the ratios of one importance; give them by type and kind."""
    print(f"\n| error over ggml's, importance: {importance} | {' | '.join(KINDS)} |")
    print("|---|" + "---|" * len(KINDS))
    ratios = {name: {kind: error_ratio(name, kind, importance) for kind in KINDS} for name in names}
    for name, row in ratios.items():
        cells = ("-" if ratio is None else f"{ratio:.3f}" for ratio in row.values())
        print(f"| {name} | {' | '.join(cells)} |")
    return ratios


def speed_table(names: list[str], n_round: int) -> dict[str, list[float]]:
    """Print speeds without and with importance; give them by type."""
    print("\n| type | M values/s | ratio to ggml | with importance, M values/s | ratio to ggml |")
    print("|---|---|---|---|---|")
    found = {}
    for name in names:
        plain, weighed = (speeds(name, w, n_round) for w in (None, exponential("speed")))
        row = [plain[0], plain[0] / plain[1], weighed[0], weighed[0] / weighed[1]]
        found[name] = [round(value, 2) for value in row]
        print("| {} | {:.0f} | {:.2f} | {:.0f} | {:.2f} |".format(name, *found[name]), flush=True)
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", default=",".join(ggml_quantize.NAMES))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    names = options.types.split(",")
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    where = {"machine": platform.machine(), "level": _kernels.levels()[0], "commit": commit}
    print(f"{where['machine']}, {where['level']}, 1 thread, junto {commit}")
    errors = {importance: error_table(names, importance) for importance in IMPORTANCES}
    print(json.dumps({**where, "errors": errors, "speeds": speed_table(names, options.rounds)}))


if __name__ == "__main__":
    main()
