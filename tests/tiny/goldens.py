"""Recorded logits of the tiny models: what is kept, where, and how far other logits are from it.

A golden keeps the last row of one run for each of LENGTHS, a few rows of the longest run, and what
made them. The files lie in `tests/golden/<oracle>/<name>.npz`. Knows no oracle: callers bring one.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tests.tiny.random_weights import F32, I64

FOLDER = Path(__file__).parent.parent / "golden"
LENGTHS = (1, 2, 63, 64, 65, 127, 128, 129, 130, 408, 700)
"""Token counts that every golden covers: around blocks of 64 and windows of 128, and long."""
SPREAD = (0, 31, 63, 64, 127, 128, 300, 511)
"""Positions kept of the longest run besides its last."""

Oracle = Literal["transformers", "llama_cpp", "train_demo"]
Logits = Callable[[I64], F32]


@dataclass(frozen=True)
class Golden:
    """Rows of logits, float32, and max |logit| of the run each comes from.

    last    [len(LENGTHS), n_vocab]   the last row of a run over the first n tokens
    spread  [len(SPREAD), n_vocab]    rows of the longest run
    scale   [len(LENGTHS)]            max |logit| over all rows of that run
    tokens  [max(LENGTHS)]
    """

    last: F32
    spread: F32
    scale: F32
    tokens: I64
    made_by: Mapping[str, str]


def record(logits: Logits, tokens: I64, made_by: Mapping[str, str]) -> Golden:
    """Run `logits` (ids -> [n_tok, n_vocab]) once a length, each time from nothing."""
    runs = [logits(tokens[:n]) for n in LENGTHS]
    return Golden(
        last=np.stack([run[-1] for run in runs]),
        spread=runs[-1][list(SPREAD)],
        scale=np.array([np.abs(run).max() for run in runs], np.float32),
        tokens=tokens,
        made_by=made_by,
    )


def path(oracle: Oracle, name: str) -> Path:
    """Where the golden of a model or mix lies."""
    return FOLDER / oracle / f"{name}.npz"


def save(oracle: Oracle, name: str, golden: Golden) -> None:
    """Write a golden."""
    path(oracle, name).parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path(oracle, name),
        last=golden.last,
        spread=golden.spread,
        scale=golden.scale,
        tokens=golden.tokens.astype(np.int32),
        made_by=np.array(json.dumps(dict(golden.made_by))),
    )


def load(oracle: Oracle, name: str) -> Golden:
    """Read a golden."""
    with np.load(path(oracle, name)) as data:
        return Golden(
            last=data["last"],
            spread=data["spread"],
            scale=data["scale"],
            tokens=data["tokens"].astype(np.int64),
            made_by=json.loads(str(data["made_by"])),
        )


def error_at(golden: Golden, n: int, logits: F32) -> float:
    """Largest error over max |logit| of a run over the first n tokens; n is one of LENGTHS.

    logits [n, n_vocab]. Compares the last row, and the spread rows if n is the longest length.
    """
    i = LENGTHS.index(n)
    if logits.shape != (n, golden.last.shape[1]):
        raise ValueError(f"logits are {logits.shape}, expected {(n, golden.last.shape[1])}")
    worst = float(np.abs(logits[-1] - golden.last[i]).max())
    if n == max(LENGTHS):
        worst = max(worst, float(np.abs(logits[list(SPREAD)] - golden.spread).max()))
    return worst / float(golden.scale[i])


def errors(golden: Golden, logits: Logits) -> dict[int, float]:
    """`error_at` for every length, running `logits` for each."""
    return {n: error_at(golden, n, logits(golden.tokens[:n])) for n in LENGTHS}


def of_draft(draft_logits: Logits) -> Logits:
    """As many rows as tokens of a draft head: after the last token the first one follows.

    draft_logits   ids [n] -> [n - 1, n_vocab]
    """
    return lambda ids: draft_logits(np.concatenate([ids, ids[:1]]))
