"""Stored rows to float32: the codecs of the products agree with the decoders in NumPy."""

import numpy as np
import pytest

from junto import _kernels
from junto.formats.quants import TYPES, dequantize
from tests.kernels.packing import FLOATS, QUANTISED, stored_rows


@pytest.mark.parametrize("type_name", [*QUANTISED, *FLOATS])
def test_values_are_those_of_the_format(level: str, type_name: str) -> None:
    """To a rounding or two: scales of some types are multiplied in another order."""
    kind, pool = TYPES[type_name], _kernels.ThreadPool(2)
    n = 3 * kind.n_per_block
    for n_row in (1, 15, 16, 17, 37):
        rows = stored_rows(f"decode {n_row}", type_name, n_row, n)
        y = np.full((n_row, n), np.nan, np.float32)
        _kernels.decode_rows(level, pool, type_name, rows, y)
        expected = dequantize(kind, rows)
        error = np.abs(y - expected).max()
        assert error <= 2e-7 * np.abs(expected).max(), (n_row, error)
        if type_name in ("Q8_0", "Q4_0", "MXFP4", *FLOATS):
            assert y.tobytes() == np.ascontiguousarray(expected).tobytes()


def test_shapes_that_do_not_fit_are_refused() -> None:
    pool = _kernels.ThreadPool(1)
    rows, y = np.zeros((3, 36), np.uint8), np.empty((3, 64), np.float32)
    _kernels.decode_rows("portable", pool, "Q4_0", rows, y)
    for bad_rows, bad_y in (
        (rows[:2], y),
        (np.zeros((3, 35), np.uint8), y),
        (rows, np.empty((3, 63), np.float32)),
        (rows, np.empty((3, 96), np.float32)),
    ):
        with pytest.raises(ValueError, match="decode_rows"):
            _kernels.decode_rows("portable", pool, "Q4_0", bad_rows, bad_y)
    with pytest.raises(ValueError, match="unknown"):
        _kernels.decode_rows("portable", pool, "Q9", rows, y)
