"""Rows of every kind that a file may hold, importance for them, and how errors are measured.

Values are hashes, the same on every machine but for the last bit of a logarithm or cosine.
"""

from collections.abc import Callable

import numpy as np

from junto.formats.quants import TYPES, dequantize
from tests.tiny.random_weights import F32, U8, uniform

N_ROW, N = 20, 1536  # six blocks of 256 or 48 of 32 a row
STD = 0.02


def normal(name: str, shape: tuple[int, ...]) -> F32:
    """Independent values of mean 0 and deviation 1, by Box and Muller."""
    radius = np.sqrt(
        -2 * np.log((uniform(name + "/radius", shape).astype(np.float64) + 1.0) / 2 + 2**-25)
    )
    angle = np.pi * uniform(name + "/angle", shape).astype(np.float64)
    values: F32 = (radius * np.cos(angle)).astype(np.float32)
    return values


def student_t(name: str, degrees: int) -> F32:
    """Student's t: the fewer degrees, the heavier the tails."""
    squares = [normal(f"{name}/{i}", (N_ROW, N)).astype(np.float64) ** 2 for i in range(degrees)]
    return (normal(name, (N_ROW, N)) / np.sqrt(sum(squares) / degrees)).astype(np.float32)


def outliers() -> F32:
    """Normal values, one of 500 of them fifty times as large."""
    is_far = np.abs(uniform("outliers/where", (N_ROW, N))) < 1 / 500
    return normal("outliers", (N_ROW, N)) * np.where(is_far, np.float32(50 * STD), np.float32(STD))


def one_huge_value() -> F32:
    """Normal values, and one of 10,000 and more in each row."""
    rows = normal("huge", (N_ROW, N)) * np.float32(STD)
    rows[:, 777] = 3e4 + 2e4 * uniform("huge/value", (N_ROW,))
    return rows


def sparse() -> F32:
    """Zeros but for a tenth."""
    return np.where(
        np.abs(uniform("sparse/where", (N_ROW, N))) < 0.1, normal("sparse", (N_ROW, N)), 0
    )


KINDS: dict[str, Callable[[], F32]] = {
    "normal": lambda: normal("normal", (N_ROW, N)) * np.float32(STD),
    "uniform": lambda: uniform("uniform", (N_ROW, N)) * np.float32(STD),
    "student_t3": lambda: student_t("t3", 3) * np.float32(STD),
    "student_t1": lambda: np.clip(student_t("t1", 1) * np.float32(STD), -6e4, 6e4),
    "outliers": outliers,
    "one_huge_value": one_huge_value,
    "zeros": lambda: np.zeros((N_ROW, N), np.float32),
    "constants": lambda: np.repeat(normal("constants", (N_ROW, 1)), N, axis=1),
    "denormals": lambda: (normal("denormals", (N_ROW, N)) * 1e-39).astype(np.float32),
    "all_negative": lambda: -np.abs(normal("negative", (N_ROW, N))) * np.float32(STD) - 0.001,
    "all_positive": lambda: np.abs(normal("positive", (N_ROW, N))) * np.float32(STD) + 0.03,
    "tiny": lambda: normal("tiny", (N_ROW, N)) * np.float32(2e-5),
    "sparse": sparse,
}


def exponential(name: str) -> F32:
    """Importance as activations have it: most small, some large."""
    values: F32 = -np.log((uniform(name, (N,)) + 1) / 2 + np.float32(2**-25))
    return values


def with_holes() -> F32:
    """Importance of which a third is zero, as dead channels have it."""
    return np.where(np.abs(uniform("holes/where", (N,))) < 1 / 3, 0, exponential("holes")).astype(
        np.float32
    )


IMPORTANCES: dict[str, Callable[[], F32 | None]] = {
    "none": lambda: None,
    "exponential": lambda: exponential("importance"),
    "holes": with_holes,
}


def decoded(name: str, data: U8) -> F32:
    """Stored rows to float32, by the decoders in NumPy."""
    return dequantize(TYPES[name], data)


def error(name: str, data: U8, rows: F32, importance: F32 | None) -> float:
    """Sum of w (x - q)^2 over all rows, in float64; w is the importance, or 1."""
    with np.errstate(all="ignore"):  # ggml may give infinite scales
        squares = (decoded(name, data).astype(np.float64) - rows) ** 2
    return float((squares if importance is None else squares * importance).sum())
