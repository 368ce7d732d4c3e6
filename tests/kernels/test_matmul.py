"""linear on packed weights: right numbers at every level, and the same bits in any company."""

import numpy as np
import pytest

from junto import _kernels
from junto.formats.quant_types import TYPES
from junto.ops.views import F32
from tests.kernels.packing import FLOATS, QUANTISED, activations, pack, stored_rows, values_of
from tests.tiny.random_weights import affine

LEVELS = _kernels.levels()
ALL_TYPES = (*QUANTISED, *FLOATS)


def linear(
    level: str,
    weight: _kernels.PackedMatrix,
    x: F32,
    n_out: int,
    bias: F32 | None = None,
    n_threads: int = 2,
) -> F32:
    y = np.full((len(x), n_out), np.nan, np.float32)
    _kernels.linear(level, _kernels.ThreadPool(n_threads), weight, x, bias, y)
    return y


def sizes_of(type_name: str) -> list[tuple[int, int]]:
    """(n_out, n_in) around the group of 16 rows, and short and odd rows where the type allows."""
    if type_name in QUANTISED and TYPES[type_name].n_per_block > 32:
        n = TYPES[type_name].n_per_block
        return [(1, n), (17, 2 * n), (48, 3 * n)]
    if type_name in QUANTISED:
        return [(1, 32), (15, 64), (16, 96), (17, 288), (33, 160)]
    return [(1, 1), (15, 7), (16, 64), (17, 65), (34, 33)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", ALL_TYPES)
def test_products_equal_float64(level: str, type_name: str) -> None:
    """Sums over k run in float32: 1e-6 of the sum of absolute products a few times over."""
    pool = _kernels.ThreadPool(1)
    for n_out, n_in in sizes_of(type_name):
        rows = stored_rows(f"{type_name}{n_out}", type_name, n_out, n_in)
        weight, w = pack(type_name, [rows], n_in, pool), values_of(type_name, rows)
        bias = affine("bias", (n_out,), 0.0, 1.0)
        for n_row in (1, 2, 3, 5, 16, 17, 45):
            x = affine(f"x{n_row}", (n_row, n_in), 0.1, 1.0)
            a = activations(type_name, x)
            error = np.abs(linear(level, weight, x, n_out, bias) - (a @ w.T + bias))
            bound = 3e-6 * (np.abs(a) @ np.abs(w).T + np.abs(bias))
            assert (error <= bound).all(), (n_out, n_in, n_row, (error / bound).max())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", QUANTISED)
def test_every_value_alone_is_the_one_numpy_decodes(level: str, type_name: str) -> None:
    """Rows of the identity pick single weights; a sum could hide two that changed places."""
    n_out, n_in = 19, 2 * TYPES[type_name].n_per_block
    pool = _kernels.ThreadPool(1)
    rows = stored_rows("alone", type_name, n_out, n_in)
    got = linear(level, pack(type_name, [rows], n_in, pool), np.eye(n_in, dtype=np.float32), n_out)
    w = values_of(type_name, rows)
    np.testing.assert_allclose(got, w.T, rtol=1e-6, atol=1e-6 * np.abs(w).max())


@pytest.mark.parametrize("type_name", ALL_TYPES)
def test_packed_form_is_no_more_than_four_per_cent_larger_than_the_file_s(type_name: str) -> None:
    n_out, n_in = 32, 512
    packed = _kernels.PackedMatrix(type_name, 3, n_out, n_in).n_bytes
    assert 1 <= packed / (3 * n_out * TYPES[type_name].n_bytes_row(n_in)) < 1.04


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", ALL_TYPES)
def test_a_row_has_the_same_bits_alone_and_among_many(level: str, type_name: str) -> None:
    """Also where kernels take a part of k at a time, and each number of rows differently."""
    n_out, n_in = 40, 1280
    pool = _kernels.ThreadPool(2)
    weight = pack(type_name, [stored_rows("w", type_name, n_out, n_in)], n_in, pool)
    x = affine("x", (150, n_in), 0.0, 1.0)
    together = linear(level, weight, x, n_out)
    few = [(n, 2 * n) for n in range(1, 18)]
    for start, end in (*few, (0, 1), (15, 17), (64, 150), (149, 150)):
        alone = linear(level, weight, np.ascontiguousarray(x[start:end]), n_out, n_threads=1)
        np.testing.assert_array_equal(alone, together[start:end])


@pytest.mark.parametrize("level", LEVELS)
def test_rows_that_lie_apart_are_packed_alike(level: str) -> None:
    """Every other row of an interleaved matrix, without a copy."""
    n_out, n_in = 18, 64
    both = stored_rows("both", "MXFP4", 2 * n_out, n_in)
    pool = _kernels.ThreadPool(1)
    x = affine("x", (3, n_in), 0.0, 1.0)
    apart = linear(level, pack("MXFP4", [both[1::2]], n_in, pool), x, n_out)
    copied = linear(level, pack("MXFP4", [both[1::2].copy()], n_in, pool), x, n_out)
    np.testing.assert_array_equal(apart, copied)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", ["Q8_0", "MXFP4", "IQ4_NL"])
def test_the_largest_codes_do_not_saturate(level: str, type_name: str) -> None:
    """Without VNNI pairs of products are summed in 16 bits; -128 * -127 * 2 must fit."""
    n_in = 64
    rows = stored_rows("w", type_name, 16, n_in)
    if type_name == "Q8_0":
        codes = rows.reshape(16, -1, 34)[..., 2:]
        codes[:8], codes[8:] = 0x80, 0x7F
    elif type_name == "IQ4_NL":
        codes = rows.reshape(16, -1, 18)[..., 2:]
        codes[:8], codes[8:] = 0x00, 0xFF
    else:
        rows.reshape(16, -1, 17)[..., 1:] = 0x77
    weight, w = pack(type_name, [rows], n_in, _kernels.ThreadPool(1)), values_of(type_name, rows)
    for sign in (-1, 1):
        x = np.full((1, n_in), sign, np.float32)
        np.testing.assert_allclose(linear(level, weight, x, 16), x.astype(float) @ w.T, rtol=1e-5)


@pytest.mark.parametrize("type_name", QUANTISED)
@pytest.mark.parametrize(
    ("level", "base"),
    [
        pytest.param(
            *("avxvnni", "avx2"),
            marks=pytest.mark.skipif("avxvnni" not in LEVELS, reason="AVX-VNNI, or `make vnni`"),
        ),
        pytest.param(
            *("i8mm", "neon"),
            marks=pytest.mark.skipif("i8mm" not in LEVELS, reason="i8mm, or `make aarch64`"),
        ),
    ],
)
def test_other_products_of_bytes_change_no_bit(level: str, base: str, type_name: str) -> None:
    """Sums of bytes are whole numbers: both give them exactly, and the rest is the same code."""
    n_out, n_in = 35, 2 * TYPES[type_name].n_per_block
    rows = stored_rows("w", type_name, n_out, n_in)
    weight = pack(type_name, [rows], n_in, _kernels.ThreadPool(1))
    x = affine("x", (7, n_in), 0.1, 1.0)
    got = linear(level, weight, x, n_out)
    np.testing.assert_array_equal(got, linear(base, weight, x, n_out))


@pytest.mark.parametrize("level", LEVELS)
def test_zero_rows_give_zero(level: str) -> None:
    weight = pack("Q6_K", [stored_rows("w", "Q6_K", 5, 256)], 256, _kernels.ThreadPool(1))
    assert not linear(level, weight, np.zeros((2, 256), np.float32), 5).any()


def test_wrong_shapes_are_refused() -> None:
    pool = _kernels.ThreadPool(1)
    weight = pack("Q8_0", [stored_rows("w", "Q8_0", 4, 64)], 64, pool)
    x, y = np.zeros((2, 64), np.float32), np.zeros((2, 4), np.float32)
    with pytest.raises(ValueError, match="columns of x is 32, n_in is 64"):
        _kernels.linear("portable", pool, weight, np.zeros((2, 32), np.float32), None, y)
    with pytest.raises(ValueError, match="rows of y is 1, rows of x is 2"):
        _kernels.linear("portable", pool, weight, x, None, y[:1])
    with pytest.raises(ValueError, match="bias is 5, n_out is 4"):
        _kernels.linear("portable", pool, weight, x, np.zeros(5, np.float32), y)
    with pytest.raises(ValueError, match="level 'sse9' does not run here"):
        _kernels.linear("sse9", pool, weight, x, None, y)
    with pytest.raises(ValueError, match="no kernel for type 'Q9_9'"):
        _kernels.PackedMatrix("Q9_9", 1, 1, 32)
    with pytest.raises(ValueError, match="rows come in 32s"):
        _kernels.PackedMatrix("Q8_0", 1, 1, 33)
    with pytest.raises(ValueError, match="does not fit"):
        _kernels.PackedMatrix("F32", 1 << 30, 1 << 30, 1 << 30)
    with pytest.raises(ValueError, match="bytes of a row is 67, expected is 68"):
        weight.fill(0, np.zeros((4, 67), np.uint8), pool)
    with pytest.raises(ValueError, match="expert 1 of 1"):
        weight.fill(1, np.zeros((4, 68), np.uint8), pool)
    with pytest.raises(ValueError, match="0 threads"):
        _kernels.ThreadPool(0)
