"""Codes of keys and values: as near as their type allows, and as GGUF has its types."""

import numpy as np
import pytest

from junto.formats.quant_types import TYPES
from junto.formats.quants import dequantize
from junto.ops.reference.kv_codes import (
    quantise,
    read_keys,
    read_values,
    write_keys,
    write_values,
)
from junto.ops.views import Codes
from tests.ops.nearness import normal

N_BLOCK, N_HEAD_KV, HEAD_DIM = 5, 3, 96
BLOCKS = np.array([3, 1], np.int32)


def half(seed: int, *shape: int) -> np.ndarray:
    return normal(seed, *shape).astype(np.float16)


def empty(is_q8: bool, n_row: int, n_lane: int) -> Codes:
    dtype, n_in_byte = (np.int8, 1) if is_q8 else (np.uint8, 2)
    codes = np.full((N_BLOCK, N_HEAD_KV, n_row // n_in_byte, n_lane), 7, dtype)
    return Codes(codes, np.full((N_BLOCK, N_HEAD_KV, HEAD_DIM // 32, 64), np.nan, np.float16))


@pytest.mark.parametrize("is_q8", [True, False])
def test_blocks_read_back_within_half_a_step(is_q8: bool) -> None:
    """Q4_0 has no code for 8: the opposite of its largest value is cut to 7, a whole step."""
    k, v = half(1, 2, N_HEAD_KV, HEAD_DIM, 64), half(2, 2, N_HEAD_KV, 64, HEAD_DIM)
    k_codes, v_codes = empty(is_q8, HEAD_DIM, 64), empty(is_q8, 64, HEAD_DIM)
    write_keys(k_codes, BLOCKS, k)
    write_values(v_codes, BLOCKS, v)
    keys = read_keys(k_codes, BLOCKS).swapaxes(2, 3), k.swapaxes(2, 3), k_codes
    for read, true, codes in (keys, (read_values(v_codes, BLOCKS), v, v_codes)):
        assert read.dtype == np.float32
        step = np.abs(np.repeat(codes.scales[BLOCKS].swapaxes(2, 3), 32, 3).astype(np.float32))
        error = np.abs(read - true.astype(np.float32)) / step
        assert error.max() <= (0.501 if is_q8 else 1.01)
        assert np.mean(error <= 0.501) > 0.98
    untouched = [0, 2, 4]
    assert (v_codes.codes[untouched] == 7).all()
    assert np.isnan(v_codes.scales[untouched]).all()


@pytest.mark.parametrize(("is_q8", "name"), [(True, "Q8_0"), (False, "Q4_0")])
def test_codes_and_scales_mean_what_they_mean_in_ggufs_types(is_q8: bool, name: str) -> None:
    """Put together as a file has them: scale, then codes; of 4 bits, 16 low ones, 16 high ones."""
    v, v_codes = half(3, 2, N_HEAD_KV, 64, HEAD_DIM), empty(is_q8, 64, HEAD_DIM)
    write_values(v_codes, BLOCKS, v)
    codes, scales = quantise(v, is_q8)
    groups = codes.reshape(-1, 32)
    if not is_q8:
        groups = (groups[:, :16] + 8) | (groups[:, 16:] + 8) << 4
    rows = np.concatenate([scales.reshape(-1, 1).view(np.uint8), groups.view(np.uint8)], axis=1)
    expected = dequantize(TYPES[name], rows).reshape(v.shape)
    np.testing.assert_array_equal(read_values(v_codes, BLOCKS), expected)


@pytest.mark.parametrize(
    ("is_q8", "largest", "code"),
    [(True, 3.0, 127), (True, -3.0, -127), (False, 3.0, -8), (False, -3.0, -8)],
)
def test_largest_value_takes_the_last_code(is_q8: bool, largest: float, code: int) -> None:
    row = np.full(32, 0.5, np.float16)
    row[11] = largest
    codes, scales = quantise(row, is_q8)
    assert codes[11] == code
    assert abs(codes[11] * float(scales[0]) - largest) <= 2e-3


@pytest.mark.parametrize("is_q8", [True, False])
def test_zeros_and_the_smallest_numbers_stay_finite(is_q8: bool) -> None:
    tiny = np.array([0, 6e-8, -6e-8, 1e-6], np.float16).repeat(32)
    codes, scales = quantise(tiny, is_q8)
    assert (codes[:32] == 0).all()
    read = codes * np.repeat(scales.astype(np.float64), 32)
    assert np.abs(read - tiny).max() < 1.1e-6


@pytest.mark.parametrize("is_q8", [True, False])
def test_codes_serve_32_values_of_one_position(is_q8: bool) -> None:
    """A giant in one group leaves its neighbours' codes as they are."""
    rows = half(4, 2, 64)
    before, _ = quantise(rows, is_q8)
    rows[0, 40] = 1000
    after, _ = quantise(rows, is_q8)
    np.testing.assert_array_equal(after[0, :32], before[0, :32])
    np.testing.assert_array_equal(after[1], before[1])
    assert (after[0, 32:40] != before[0, 32:40]).any()
