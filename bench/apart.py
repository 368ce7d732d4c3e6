"""Our speed against llama.cpp's on a file of which only one copy fits into memory.

    python -m bench.apart MODEL.gguf [--rounds 3] [--streams 1,16] [--prompt 512]

Each engine is a process of its own: it loads, runs every work some times and ends before the other
begins. Minutes lie between them, in which a shared machine drifts: `bench.compare`, on a file of
few layers, gives the better ratios, and this one says whether they hold for the whole. The last
line is JSON.
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from bench.compare import HEAD, N_ID, n_ctx, parser, row, shown, workloads
from bench.engine import Engine, Ours
from junto.measure.machine import processor
from junto.measure.software import versions

ENGINES = ("junto", "llama.cpp")
N_RUN = 3


def loaded(name: str, options: Any) -> Engine:
    """An engine with the model."""
    most = max(options.streams)
    if name == "junto":
        return Ours(options.model, options.threads, most)
    from bench.rival import LlamaCpp  # here, so that what needs no rival runs without

    return LlamaCpp(options.model, options.threads, n_ctx(options), most)


def measure(name: str, options: Any) -> list[float]:
    """Tokens a second of each work, medians."""
    engine, speeds = loaded(name, options), []
    ids = np.random.default_rng(0).integers(2, options.vocab, N_ID).tolist()
    for work in workloads(options, ids):
        work.begin(engine)
        speeds.append(median(work.run(engine) for _ in range(N_RUN)))
    return speeds


def main(words: Sequence[str] | None = None) -> None:
    """Measure as one engine, or start both in turn."""
    made = parser("bench.apart", str(__doc__))
    made.set_defaults(pairs=N_RUN)  # what `n_ctx` counts
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--vocab", type=int, default=100_000, help="tokens are drawn below this")
    made.add_argument("--only", choices=ENGINES, help="measure one engine here, print its JSON")
    words = sys.argv[1:] if words is None else list(words)
    options = made.parse_args(words)
    if options.only:
        print(json.dumps(measure(options.only, options)))
        return
    pairs: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(options.rounds):
        ours, theirs = (_of_process(name, words) for name in ENGINES)
        for i, pair in enumerate(zip(ours, theirs, strict=True)):
            pairs[i].append(pair)
    print(HEAD)
    rows = [row(work, pairs[i]) for i, work in enumerate(workloads(options, range(N_ID)))]
    for figures in rows:
        print(shown(figures))
    report = {"model": options.model.name, "machine": processor().name, "rounds": options.rounds}
    print(f"\n{json.dumps(report | {'commit': versions()['commit'], 'rows': rows})}")


def _of_process(name: str, words: Sequence[str]) -> list[float]:
    command = [sys.executable, "-W", "ignore", "-m", "bench.apart", *words, "--only", name]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    speeds: list[float] = json.loads(run.stdout.splitlines()[-1])
    return speeds


if __name__ == "__main__":
    main()
