"""Our speed against llama.cpp's on one file, in alternation, in one process.

    python -m bench.compare MODEL.gguf [--pairs 15] [--streams 1,4,16] [--depth 32,8192] [--limits]

A shared machine drifts by half within minutes, so only ratios of neighbouring measurements count:
each pair runs both engines on the same work, and who goes first alternates. The table gives the
medians and the ratio with its quartiles; the last line is JSON, which `bench.picture` draws.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.engine import Ours
from bench.workload import Decode, Prefill, Workload, alternate
from junto.measure.limits import measure_limits
from junto.measure.machine import processor
from junto.measure.software import versions
from junto.measure.spread import Spread
from junto.ops.cpu import Cpu
from junto.ops.cpu.processors import default_threads

N_ID = 4096
"""Random tokens that prompts are cut from."""


HEAD = "| work | junto tok/s | llama.cpp tok/s | ratio, median (quartiles) |\n|---|---|---|---|"


def numbers(text: str) -> list[int]:
    """The whole numbers of "1,4,16"."""
    return [int(part) for part in text.split(",")]


def parser(name: str, told: str) -> argparse.ArgumentParser:
    """The options of a comparison by the name of its module."""
    made = argparse.ArgumentParser(prog=f"python -m {name}", description=told)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("model", type=Path)
    made.add_argument("--streams", type=numbers, default=[1, 4, 16])
    made.add_argument("--prompt", type=int, default=512, help="tokens; 0 leaves prefill out")
    made.add_argument("--depth", type=numbers, default=[32], help="tokens before decoding")
    made.add_argument("--steps", type=int, default=8, help="steps of decoding in one run")
    made.add_argument("--threads", type=int, default=default_threads())
    return made


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    """The options of this command."""
    made = parser("bench.compare", str(__doc__))
    made.add_argument("--pairs", type=int, default=15)
    made.add_argument("--limits", action="store_true", help="measure the machine too")
    return made.parse_args(words)


def workloads(options: argparse.Namespace, ids: Sequence[int]) -> list[Workload]:
    """All that is measured, in order."""
    prefill: list[Workload] = [Prefill(ids[: options.prompt])] if options.prompt else []
    return prefill + [
        Decode(ids, n_stream, depth, options.steps)
        for depth in options.depth
        for n_stream in options.streams
    ]


def n_ctx(options: argparse.Namespace) -> int:
    """Tokens that a sequence comes to hold at most, rounded up for the rival."""
    longest: int = max(options.depth) + (options.pairs + 1) * options.steps
    return (max(longest, int(options.prompt)) // 256 + 2) * 256


def row(work: Workload, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """What was measured of one work, as JSON values."""
    return {
        "work": work.name,
        "ours": Spread.of([a for a, _ in pairs]).as_json(),
        "theirs": Spread.of([b for _, b in pairs]).as_json(),
        "ratio": Spread.of([a / b for a, b in pairs]).as_json(),
    }


def shown(figures: dict[str, Any]) -> str:
    """A row of the table."""
    ratio = figures["ratio"]
    ours, theirs = figures["ours"]["median"], figures["theirs"]["median"]
    spread = f"{ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})"
    return f"| {figures['work']} | {ours:.2f} | {theirs:.2f} | {spread} |"


def main(words: Sequence[str] | None = None) -> None:
    """Run the comparison."""
    from bench.rival import LlamaCpp, version  # here, so that what needs no rival runs without

    options = parsed(words)
    most = max(options.streams)
    ours = Ours(options.model, options.threads, most)
    theirs = LlamaCpp(options.model, options.threads, n_ctx(options), most)
    ops = ours.model.runner.ops
    assert isinstance(ops, Cpu), "the cpu backend was asked for"
    report: dict[str, Any] = {
        "model": options.model.name,
        "machine": processor().name,
        "threads": ops.n_threads,
        "level": ops.level,
        "junto": versions()["junto"],
        "commit": versions()["commit"],
        "rival": f"llama.cpp ({version()})",
        "pairs": options.pairs,
        "limits": None,
    }
    print(", ".join(f"{name} {value}" for name, value in report.items() if value) + "\n")
    print(HEAD)
    ids = np.random.default_rng(0).integers(2, ours.model.config.n_vocab, N_ID).tolist()
    report["rows"] = []
    for work in workloads(options, ids):
        figures = row(work, alternate(ours, theirs, work, options.pairs))
        print(shown(figures), flush=True)
        report["rows"].append(figures)
    if options.limits:
        report["limits"] = measure_limits(ops.level, ops.n_threads).as_json()
    print(f"\n{json.dumps(report)}")
    theirs.close()


if __name__ == "__main__":
    main()
