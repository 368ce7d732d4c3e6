"""Sizes and decoded values equal gguf-py's and libggml's, bit for bit, and hand-worked blocks."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest

from junto.errors import FormatError
from junto.formats import quants
from junto.formats.quant_types import F32, TYPES, TYPES_BY_ID, U8
from junto.formats.quants import DECODERS, dequantize
from tests.tiny.random_weights import digest_of_values, random_bytes

BLOCK_TYPES = [
    *("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"),
    *("MXFP4", "NVFP4", "TQ1_0", "TQ2_0"),
]
LIBGGML = json.loads((Path(__file__).parent.parent / "golden" / "libggml.json").read_text())
FLOATS = ["F32", "F16", "BF16"]


def as_gguf_py(name: str, data: U8) -> F32:
    with np.errstate(all="ignore"):
        decoded: F32 = gguf.quants.dequantize(data, gguf.GGMLQuantizationType[name])
    return decoded


def assert_same_bits(got: F32, expected: F32) -> None:
    assert got.dtype == np.float32
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def random_rows(name: str, n_row: int, n_block: int) -> U8:
    rng = np.random.default_rng(TYPES[name].ggml_id)
    n_bytes = n_block * TYPES[name].n_bytes_per_block
    return rng.integers(0, 256, (n_row, n_bytes), dtype=np.uint8)


def test_table_has_the_numbers_and_sizes_of_gguf_py() -> None:
    ours = {t.name: (t.ggml_id, t.n_per_block, t.n_bytes_per_block) for t in TYPES_BY_ID.values()}
    theirs = {t.name: (int(t), *sizes) for t, sizes in gguf.GGML_QUANT_SIZES.items()}
    theirs["Q8_1"] = (9, 32, 36)  # gguf-py's 40 bytes are those of a struct ggml no longer has
    assert {name: ours.get(name) for name in theirs} == theirs


@pytest.mark.parametrize("name", FLOATS + BLOCK_TYPES)
def test_random_bytes_decode_to_the_bits_of_gguf_py(name: str) -> None:
    """Random bytes hold NaN and infinite scales, which must come out alike."""
    data = random_rows(name, n_row=257, n_block=12)
    assert_same_bits(dequantize(TYPES[name], data), as_gguf_py(name, data))


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_half_precision_scales_decode_to_the_bits_of_gguf_py(name: str) -> None:
    """Every fifth pattern, NaN and subnormals among them, at the ends, where the scales stand."""
    patterns = np.arange(0, 65536, 5, dtype="<u2").view(np.uint8).reshape(-1, 2)
    data = np.repeat(random_rows(name, n_row=1, n_block=1), len(patterns), axis=0)
    data[:, :2] = patterns
    data[:, -2:] = patterns
    assert_same_bits(dequantize(TYPES[name], data), as_gguf_py(name, data))


@pytest.mark.parametrize("name", LIBGGML["types"])
def test_random_bytes_decode_to_the_values_of_libggml(name: str) -> None:
    golden, n_block = LIBGGML["types"][name], LIBGGML["n_block"]
    assert (TYPES[name].ggml_id, TYPES[name].n_bytes_per_block) == (
        golden["id"],
        golden["n_bytes_per_block"],
    )
    data = random_bytes(f"libggml/{name}", n_block * golden["n_bytes_per_block"])
    assert digest_of_values(dequantize(TYPES[name], data)) == golden["sha256"]


@pytest.mark.parametrize("name", ["Q8_1", "Q8_K"])
def test_activation_types_decode_by_hand(name: str) -> None:
    """Ggml keeps activations in these and decodes neither; the sums behind d are redundant."""
    kind = TYPES[name]
    scale = np.array([0.5], "<f4" if name == "Q8_K" else "<f2").view(np.uint8)
    q = np.arange(kind.n_per_block, dtype=np.int64).astype(np.int8)
    start = 4
    block = np.full(kind.n_bytes_per_block, 99, np.uint8)
    block[: len(scale)] = scale
    block[start : start + len(q)] = q.view(np.uint8)
    assert dequantize(kind, block).tolist() == (q * 0.5).tolist()


def test_mxfp4_in_the_order_of_pairs_holds_the_same_values_in_other_places() -> None:
    pairs = random_rows("MXFP4", n_row=3, n_block=2).reshape(6, 17)
    values = np.zeros((6, 32), np.uint8)
    values[:, 0::2], values[:, 1::2] = pairs[:, 1:] & 15, pairs[:, 1:] >> 4
    halves = pairs.copy()
    halves[:, 1:] = values[:, :16] | (values[:, 16:] << 4)
    assert_same_bits(dequantize(TYPES["MXFP4_PAIRS"], pairs), dequantize(TYPES["MXFP4"], halves))


def test_tensor_longer_than_a_slab_decodes_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_rows("Q4_K", n_row=7, n_block=3)
    whole = dequantize(TYPES["Q4_K"], data)
    monkeypatch.setattr(quants, "_SLAB_VALUES", 1025)  # slabs of 4 blocks leave one of the 21 over
    assert_same_bits(dequantize(TYPES["Q4_K"], data), whole)


def test_leading_axes_are_kept() -> None:
    data = random_rows("Q8_0", n_row=6, n_block=5)
    rows = dequantize(TYPES["Q8_0"], data)
    assert_same_bits(dequantize(TYPES["Q8_0"], data.reshape(2, 3, -1)), rows.reshape(2, 3, 160))
    assert_same_bits(dequantize(TYPES["Q8_0"], data[4]), rows[4])
    assert_same_bits(dequantize(TYPES["Q8_0"], data[::2]), rows[::2])


@pytest.mark.parametrize("name", ["F32", "F16", "MXFP4"])
@pytest.mark.parametrize("shape", [(0, 68), (3, 0)])
def test_empty_data_decodes_to_empty_values(name: str, shape: tuple[int, int]) -> None:
    n = shape[1] // TYPES[name].n_bytes_per_block * TYPES[name].n_per_block
    assert dequantize(TYPES[name], np.zeros(shape, np.uint8)).shape == (shape[0], n)


def test_mxfp4_block_by_hand() -> None:
    """Exponent 128 is a scale of 2; the low nibbles come first."""
    block = np.array([128] + [0x21] + [0x9F] * 15, np.uint8)
    values = dequantize(TYPES["MXFP4"], block)
    assert values[:2].tolist() == [2 * 0.5, 2 * -6.0]
    assert values[16:18].tolist() == [2 * 1.0, 2 * -0.5]


def test_q4_0_block_by_hand() -> None:
    block = np.concatenate([np.array([0.25], "<f2").view(np.uint8), np.full(16, 0xF0, np.uint8)])
    values = dequantize(TYPES["Q4_0"], block)
    assert values.tolist() == [0.25 * (0 - 8)] * 16 + [0.25 * (15 - 8)] * 16


@pytest.mark.parametrize("name", ["F64", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8"])
def test_plain_numbers_become_float32(name: str) -> None:
    dtype = np.dtype(f"<{name[0].lower()}{int(name[1:]) // 8}")
    numbers = np.array([[1, 2, 3], [100, 0, 7]], dtype)
    values = dequantize(TYPES[name], numbers.view(np.uint8))
    assert_same_bits(values, numbers.astype(np.float32))


def test_any_byte_but_zero_is_a_true_bool() -> None:
    assert dequantize(TYPES["BOOL"], np.array([0, 1, 2], np.uint8)).tolist() == [0, 1, 1]


def test_float32_is_a_view_where_it_can_be() -> None:
    data = np.arange(48, dtype=np.uint8)
    assert np.shares_memory(dequantize(TYPES["F32"], data[:24]), data)
    unaligned = dequantize(TYPES["F32"], data[1:25])
    assert unaligned.flags.aligned
    assert unaligned.tobytes() == data[1:25].tobytes()


def test_type_without_decoder_is_named_with_those_that_have_one() -> None:
    with pytest.raises(FormatError, match="type F8_E4M3 cannot be decoded; decodable are F64, F32"):
        dequantize(TYPES["F8_E4M3"], np.zeros(66, np.uint8))


def test_row_that_ends_inside_a_block_is_refused() -> None:
    with pytest.raises(FormatError, match="a row of 35 bytes is not a multiple of its block of 34"):
        dequantize(TYPES["Q8_0"], np.zeros((2, 35), np.uint8))
    with pytest.raises(
        FormatError, match="a row of 33 values is not a multiple of its block of 32"
    ):
        TYPES["Q8_0"].n_bytes_row(33)


def test_every_decoder_belongs_to_a_type_of_the_table() -> None:
    for name, decoder in DECODERS.items():
        blocks = np.zeros((3, TYPES[name].n_bytes_per_block), np.uint8)
        assert decoder(blocks).shape == (3, TYPES[name].n_per_block)
