"""What `quantize` refuses, what it keeps exactly, and that bytes depend on the values alone."""

import numpy as np
import pytest

from junto import _kernels
from junto.errors import FormatError, RequestError
from junto.formats.quant_types import TYPES
from junto.quantize import QUANTIZED_TYPES, quantize
from tests.quantize.data_kinds import KINDS, decoded, error, exponential, normal
from tests.tiny.random_weights import F32, U8, random_bytes, uniform

BLOCKS = [name for name in QUANTIZED_TYPES if TYPES[name].n_per_block > 1]
EXACT = ["Q8_0", "Q5_0", "Q4_0", "Q5_1", "Q4_1", "MXFP4"]
"""Types of one scale a block, whose values can be found again."""


def random_blocks(name: str, n_block: int = 300) -> U8:
    """Blocks with every code, scales of float16 or exponents as files have them."""
    blocks = random_bytes(name, n_block * TYPES[name].n_bytes_per_block).reshape(n_block, -1).copy()
    if name == "MXFP4":
        blocks[:, 0] = 100 + blocks[:, 0] % 30
        codes = blocks[:, 1:]
        codes[codes & 15 == 8] -= 8  # -0 decodes to 0, and 0 it stays
        codes[codes >> 4 == 8] -= 128
        return blocks
    scale = 0.02 + np.abs(uniform(name + "/scale", (n_block,)))
    blocks[:, :2] = scale.astype("<f2").view(np.uint8).reshape(-1, 2)
    if name.endswith("_1"):
        offset = -8 * scale * (1 + uniform(name + "/offset", (n_block,)) / 2)
        blocks[:, 2:4] = offset.astype("<f2").view(np.uint8).reshape(-1, 2)
    return blocks


@pytest.mark.parametrize("name", EXACT)
def test_quantised_values_are_found_again(name: str) -> None:
    values = decoded(name, random_blocks(name))
    again = decoded(name, quantize(name, values))
    np.testing.assert_array_equal(again, values)


@pytest.mark.parametrize(
    "kind", ["normal", "student_t1", "sparse", "all_negative", "zeros", "tiny"]
)
@pytest.mark.parametrize("name", EXACT)
def test_quantising_twice_changes_nothing(name: str, kind: str) -> None:
    values = decoded(name, quantize(name, KINDS[kind]()))
    np.testing.assert_array_equal(decoded(name, quantize(name, values)), values)


@pytest.mark.parametrize("name", ["Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "IQ4_NL"])
def test_quantising_twice_adds_little(name: str) -> None:
    """Scales of two levels are not found again exactly: at most 6 % of the first error is added."""
    rows = KINDS["normal"]()
    once = decoded(name, quantize(name, rows))
    twice = quantize(name, once)
    assert error(name, twice, once, None) < 0.06 * error(name, quantize(name, rows), rows, None)


def test_mxfp4_bytes_of_a_published_file_come_back() -> None:
    """Publishers choose the exponent so that the largest code is 4 or 6."""
    blocks = random_blocks("MXFP4")
    blocks[:, 1] = 0x2F  # codes 1 and -6
    np.testing.assert_array_equal(quantize("MXFP4", decoded("MXFP4", blocks)), blocks)


@pytest.mark.parametrize("exponent", [0, 1, 2, 127, 252])
def test_mxfp4_keeps_the_ends_of_its_range(exponent: int) -> None:
    """The smallest scales make denormal values."""
    blocks = random_blocks("MXFP4", 7)
    blocks[:, 0], blocks[:, 1] = exponent, 0x17
    values = decoded("MXFP4", blocks)
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(quantize("MXFP4", values), blocks)


def test_q8_0_bytes_of_a_plain_choice_come_back() -> None:
    blocks = random_blocks("Q8_0")
    blocks[:, 2::2], blocks[:, 3] = blocks[:, 2::2] // 2, 0x81  # -127 in each block, never -128
    np.testing.assert_array_equal(quantize("Q8_0", decoded("Q8_0", blocks)), blocks)


def test_halves_are_the_nearest_ties_to_even() -> None:
    rows = np.concatenate([uniform("half", (3, 777)), normal("half", (3, 1)) * 1e-6], axis=1)
    ties = np.array([[1 + 2**-11, 1 + 3 * 2**-11, 2**-25, 65504.0]], np.float32)
    for values in (rows, ties):
        assert quantize("F16", values).tobytes() == values.astype("<f2").tobytes()
    bits = np.array([[0x3F808000, 0x3F818000, 0x00000001, 0x80018001]], np.uint32)
    halves = quantize("BF16", bits.view(np.float32)).view("<u2")
    assert halves.tolist() == [[0x3F80, 0x3F82, 0x0000, 0x8002]]


@pytest.mark.parametrize("n_row", [1, 2, 63])
@pytest.mark.parametrize("n_block", [1, 3, 17])
@pytest.mark.parametrize("name", BLOCKS)
def test_bytes_of_a_block_depend_on_its_values_alone(name: str, n_block: int, n_row: int) -> None:
    """Blocks are quantised sixteen lanes at a time; which ones come along changes nothing."""
    n = TYPES[name].n_per_block
    rows = normal(f"alone/{name}", (n_row, n_block * n))
    weights = exponential("alone")[:n].repeat(n_block).reshape(n, n_block).T.reshape(-1)
    for importance in (None, np.ascontiguousarray(weights)):
        whole = quantize(name, rows, importance)
        assert whole.shape == (n_row, TYPES[name].n_bytes_row(rows.shape[1]))
        row, block = n_row - 1, n_block // 2
        alone = rows[row : row + 1, block * n : (block + 1) * n]
        part = None if importance is None else importance[block * n : (block + 1) * n]
        size = TYPES[name].n_bytes_per_block
        expected = quantize(name, alone, part)[0]
        np.testing.assert_array_equal(whole[row, block * size : (block + 1) * size], expected)


@pytest.mark.parametrize("n", [1, 3, 511, 513])
def test_halves_of_any_length(n: int) -> None:
    rows = normal("length", (5, n))
    assert quantize("F16", rows).tobytes() == rows.astype("<f2").tobytes()


@pytest.mark.parametrize("name", QUANTIZED_TYPES)
def test_no_rows_give_no_bytes(name: str) -> None:
    n = TYPES[name].n_per_block
    assert quantize(name, np.empty((0, n), np.float32)).shape == (0, TYPES[name].n_bytes_per_block)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_1", "Q4_K", "Q6_K", "MXFP4"])
def test_experts_take_their_own_importance(name: str) -> None:
    rows = normal("experts", (3, 5, 512))
    weights = np.stack([np.roll(exponential("experts")[:512], 100 * i) for i in range(3)])
    each = [quantize(name, rows[i], weights[i]) for i in range(3)]
    np.testing.assert_array_equal(quantize(name, rows, weights), np.stack(each))
    shared = quantize(name, rows, weights[0])
    np.testing.assert_array_equal(shared[0], each[0])
    assert (shared[1] != each[1]).any()


@pytest.mark.parametrize("name", BLOCKS)
def test_importance_moves_the_error_to_where_it_matters_less(name: str) -> None:
    rows = normal("moves", (40, 256))
    weights = np.where(np.arange(256) % 2, np.float32(1), np.float32(1e-4))
    errors = (decoded(name, quantize(name, rows, weights)) - rows) ** 2
    plain = (decoded(name, quantize(name, rows)) - rows) ** 2
    assert errors[:, 1::2].sum() < 0.98 * plain[:, 1::2].sum()


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_that_matter_nowhere_are_quantised_as_without_importance(name: str) -> None:
    """Nothing is known of channels that were never active: their values are kept as well."""
    rows = KINDS["normal"]()[:, :512]
    weights = np.concatenate([np.zeros(256, np.float32), np.ones(256, np.float32)])
    data = quantize(name, rows, weights)
    assert error(name, data, rows, None) < 1.01 * error(name, quantize(name, rows), rows, None)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", QUANTIZED_TYPES)
def test_values_that_are_no_numbers_are_refused_by_name_and_place(name: str, value: float) -> None:
    rows = normal("bad", (3, 2, 512))
    rows[2, 1, 301] = rows[2, 1, 400] = value
    with pytest.raises(
        RequestError, match=rf"blk.7.ffn_up: value at \[2, 1, 301\] is {value}; {name} "
    ):
        quantize(name, rows, name="blk.7.ffn_up")


@pytest.mark.parametrize("name", [n for n in QUANTIZED_TYPES if n not in ("BF16", "MXFP4")])
def test_values_beyond_half_precision_are_refused(name: str) -> None:
    rows = normal("large", (2, 256))
    rows[1, 255] = -65504.0
    assert np.isfinite(decoded(name, quantize(name, rows))).all()
    rows[1, 255] = np.nextafter(np.float32(-65504), np.float32(-1e5))
    with pytest.raises(RequestError, match=r"at \[1, 255\] .* up to 65504 .* as BF16 or F32"):
        quantize(name, rows)


def test_bf16_refuses_what_would_round_to_infinity() -> None:
    largest = np.array([[np.uint32(0x7F7F0000)]]).view(np.float32)
    assert quantize("BF16", largest).view("<u2").tolist() == [[0x7F7F]]
    with pytest.raises(RequestError, match=r"BF16 takes finite values up to 3\.3895314e\+38"):
        quantize("BF16", np.full((1, 1), np.finfo(np.float32).max))


def test_importance_of_another_shape_or_sign_is_refused() -> None:
    rows, good = normal("refused", (3, 64)), np.ones(64, np.float32)
    with pytest.raises(RequestError, match=r"importance has shape \(32,\), expected \(64,\)"):
        quantize("Q8_0", rows, good[:32])
    with pytest.raises(RequestError, match=r"importance has shape \(3, 64\), expected \(64,\)"):
        quantize("Q8_0", rows, np.ones((3, 64), np.float32))
    for value in (-1.0, np.nan, np.inf):
        bad = good.copy()
        bad[5] = value
        with pytest.raises(RequestError, match=rf"importance is {value} at \[5\]"):
            quantize("Q8_0", rows, bad)
    with pytest.raises(RequestError, match="importance is of type float64"):
        quantize("Q8_0", rows, good.astype(np.float64))


def test_unknown_types_and_broken_blocks_are_refused() -> None:
    with pytest.raises(RequestError, match="cannot quantise to 'IQ2_S'; types that can"):
        quantize("IQ2_S", np.zeros((1, 256), np.float32))
    with pytest.raises(FormatError, match="Q4_K: a row of 288 values"):
        quantize(TYPES["Q4_K"], np.zeros((1, 288), np.float32))


def test_views_are_quantised_as_they_look() -> None:
    rows: F32 = normal("view", (6, 128))
    np.testing.assert_array_equal(
        quantize("Q4_0", rows[::2, ::-1][:, :96]),
        quantize("Q4_0", np.ascontiguousarray(rows[::2, ::-1][:, :96])),
    )


def test_a_pool_and_a_level_may_be_given() -> None:
    rows = normal("pool", (9, 256))
    pool = _kernels.ThreadPool(3)
    for level in _kernels.levels():
        np.testing.assert_array_equal(
            quantize("Q5_K", rows, pool=pool, level=level), quantize("Q5_K", rows)
        )
