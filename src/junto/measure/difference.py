"""How far a result is from the one that was expected, and how far it may be.

Errors are relative to their row, so that a row of large values does not hide the others; but a row
smaller than the median row is held against that, since a sum may cancel out by chance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from junto.ops.contract import Angles, Routing

EXACT = 1e-4
"""Bound where only the order of float32 sums differs."""

ROUNDED = 0.05
"""Bound of a product with quantised weights, whose activations become int8."""

TWICE_ROUNDED = 0.1
"""Bound where one such product follows another: experts, and whole layers."""

END_TO_END = 0.25
"""Bound of logits after all layers, where the errors of all of them have met."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Relative errors; infinite where a value is not finite or whole numbers differ.

    mean      mean over rows of |error| / |expected|, as Euclidean lengths
    largest   largest over rows of the same with the largest absolute values
    """

    mean: float = 0.0
    largest: float = 0.0

    @property
    def worst(self) -> float:
        """What is held against a bound."""
        return max(self.mean, self.largest)

    def joined(self, other: "Difference") -> "Difference":
        """The worse of both, each figure by itself."""
        return Difference(max(self.mean, other.mean), max(self.largest, other.largest))


def difference(expected: Any, got: Any) -> Difference:
    """Compare two results of an op: arrays, or what holds arrays; the worst of them."""
    worst = Difference()
    for a, b in zip(_arrays(expected), _arrays(got), strict=True):
        worst = worst.joined(_of_arrays(a, b))
    return worst


def _arrays(result: Any) -> Iterator[npt.NDArray[Any]]:
    match result:
        case np.ndarray():
            yield result
        case tuple():
            yield from result
        case Routing():
            yield from (result.expert_ids, result.weights)
        case Angles():
            yield from (result.cos, result.sin)
        case _:
            raise TypeError(f"results of type {type(result).__name__} cannot be compared")


def _of_arrays(expected: npt.NDArray[Any], got: npt.NDArray[Any]) -> Difference:
    if expected.shape != got.shape:
        return Difference(np.inf, np.inf)
    if not np.issubdtype(expected.dtype, np.floating):
        same = np.array_equal(expected, got)
        return Difference() if same else Difference(np.inf, np.inf)
    if expected.size == 0:
        return Difference()
    if not np.isfinite(got).all():
        return Difference(np.inf, np.inf)
    rows = expected.reshape(len(expected), -1).astype(np.float64)
    errors = got.reshape(len(got), -1) - rows
    mean = _relative(np.linalg.norm(errors, axis=1), np.linalg.norm(rows, axis=1))
    largest = _relative(np.abs(errors).max(axis=1), np.abs(rows).max(axis=1))
    return Difference(float(mean.mean()), float(largest.max()))


def _relative(
    errors: npt.NDArray[np.float64], sizes: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    floor = max(float(np.median(sizes)), float(np.finfo(np.float32).tiny))
    return np.asarray(errors / np.maximum(sizes, floor))
