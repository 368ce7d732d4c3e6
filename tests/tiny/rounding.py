"""Trained files and texts on which the rounding of activations is measured; needs no oracle."""

import json
from pathlib import Path

import numpy as np

from junto.library import demos
from tests.demos import held_out
from tests.tiny import smollm2
from tests.tiny.goldens import FOLDER
from tests.tiny.random_weights import F32

GOLDEN = FOLDER / "rounding.json"
SMOLLM2 = "SmolLM2-135M Q4_1"
N_IDS, N_CHUNK = 2048, 512


def names() -> list[str]:
    """What is measured."""
    return [SMOLLM2, *(demos.PREFIX + name for name in demos.NAMES)]


def file_of(name: str) -> Path:
    """The file of one of `names()`; skips the test without SmolLM2."""
    if name == SMOLLM2:
        return smollm2.model_path()
    return demos.path_of(name.removeprefix(demos.PREFIX))


def text_of(name: str) -> str:
    """The text that it reads; skips the test without WikiText."""
    return smollm2.wikitext() if name == SMOLLM2 else held_out.TEXT.read_text()


def golden() -> dict[str, float]:
    """llama.cpp's mean KL of a file from its float32 twin."""
    read: dict[str, float] = json.loads(GOLDEN.read_text())["mean_kl"]
    return read


def mean_kl(true: F32, other: F32) -> float:
    """Mean Kullback-Leibler divergence of rows of logits, nats."""
    p, q = log_softmax(true), log_softmax(other)
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


def log_softmax(logits: F32) -> np.ndarray:
    """Of each row, in float64."""
    x = logits.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(axis=1, keepdims=True)))
