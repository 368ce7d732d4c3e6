"""Compares an op's float32 result with a float64 one, and says where they differ most."""

from typing import Any

import numpy as np
import numpy.typing as npt

from junto.ops.views import F32

F64 = npt.NDArray[np.float64]

SIZES = (1, 63, 64, 65, 127, 128, 129, 130)
"""Below, at and above one and two chunks of 64."""


def assert_near(actual: F32, expected: npt.NDArray[Any], of_largest: float) -> None:
    """Fail if an error exceeds `of_largest` times the largest expected magnitude, or is NaN."""
    assert actual.dtype == np.float32
    assert actual.shape == expected.shape
    error = np.abs(actual.astype(np.float64) - expected)
    largest = np.abs(expected).max()
    worst = np.unravel_index(np.argmax(error), error.shape)
    assert error[worst] <= of_largest * largest, (
        f"error {error[worst]:.3g} at {tuple(map(int, worst))} of {error.shape}: got "
        f"{actual[worst]:.9g}, expected {expected[worst]:.9g}; "
        f"{error[worst] / max(largest, 1e-300):.3g} of the largest, allowed {of_largest:g}"
    )


def normal(seed: int, *shape: int) -> F32:
    """Standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
