"""Figures of tensors, against NumPy on the whole."""

import numpy as np
import pytest

from junto.convert import recoding
from junto.formats.quant_types import F32, TYPES
from junto.formats.quants import dequantize
from junto.formats.tensor import Tensor
from junto.inspection.statistics import statistics

rng = np.random.default_rng(3)


def tensor(values: F32) -> Tensor:
    return Tensor.from_array("w", values, "x")


@pytest.mark.parametrize("n_piece", [7, 100, 1 << 20])
def test_figures_do_not_depend_on_the_pieces(n_piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recoding, "N_VALUES", n_piece)
    values = (1000 + rng.standard_normal((50, 33))).astype(np.float32)
    values[3, :5] = 0
    found = statistics(tensor(values))
    exact = values.astype(np.float64)
    assert (found.n, found.min, found.max) == (1650, exact.min(), exact.max())
    assert found.mean == pytest.approx(exact.mean(), rel=1e-12)
    assert found.std == pytest.approx(exact.std(), rel=1e-9)
    assert found.zeros == 5 / 1650
    assert (found.n_nan, found.n_inf, found.blocks) == (0, 0, None)


def test_nan_and_infinity_are_counted_apart() -> None:
    values = np.array([[1, np.nan, -np.inf], [3, np.inf, np.nan], [np.nan, 0, 8]], np.float32)
    found = statistics(tensor(values))
    assert (found.n_nan, found.n_inf, found.zeros) == (3, 2, 1 / 9)
    assert (found.min, found.max, found.mean) == (0, 8, 3)


def test_tensor_without_a_finite_value_has_no_mean() -> None:
    found = statistics(tensor(np.full((2, 2), np.nan, np.float32)))
    assert np.isnan([found.min, found.max, found.mean, found.std]).all()


def test_codes_and_scales_of_mxfp4_are_counted() -> None:
    blocks = rng.integers(0, 256, (6, 3 * 17), np.uint8)
    scales = rng.integers(120, 125, (6, 3), np.uint8)
    blocks[:, ::17] = scales
    stored = Tensor("w", (6, 96), TYPES["MXFP4"], "x", lambda: blocks)
    found = statistics(stored)
    values = dequantize(TYPES["MXFP4"], blocks)
    assert found.blocks is not None
    assert (found.blocks.low, found.blocks.high) == (
        int(scales.min()) - 127,
        int(scales.max()) - 127,
    )
    assert sum(found.blocks.codes) == values.size
    assert found.blocks.codes[0] + found.blocks.codes[8] == (values == 0).sum()
    assert sum(found.blocks.codes[9:]) == (values < 0).sum()
    assert found.max == values.max()


def test_one_axis_and_experts_are_read() -> None:
    values = rng.standard_normal((4, 5, 32)).astype(np.float32)
    assert statistics(tensor(values)).max == values.max()
    assert statistics(tensor(values[0, 0])).n == 32
