"""Conversions between file layouts, against small cases worked out by hand."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from junto.errors import ModelError
from junto.formats.quant_types import TYPES, U8
from junto.formats.tensor import F32, Tensor
from junto.models import llama, qwen3next, qwen35moe
from junto.models.gpt_oss import GATE, UP
from junto.models.layouts import (
    columns,
    each,
    float32_map,
    mxfp4,
    plus_one,
    reshape,
    transposed,
)
from junto.models.table import Stored
from tests.models.fakes import lazy


def tensor(values: Any) -> Tensor:
    return Tensor.from_array("t", np.asarray(values, np.float32), "file")


def packed(shape: tuple[int, ...], data: U8) -> Tensor:
    return Tensor("p", shape, TYPES["U8"], "file", lambda: data)


def bf16(values: F32) -> Tensor:
    """Values that bfloat16 holds exactly."""
    bits = (np.ascontiguousarray(values).view(np.uint32) >> 16).astype("<u2")
    data = bits.view(np.uint8).reshape(*values.shape[:-1], -1)
    return Tensor("b", values.shape, TYPES["BF16"], "file", lambda: data)


GRID = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_conversions_read_nothing_until_asked() -> None:
    matrix, norm = lazy("m", (6, 4), "BF16"), lazy("n", (4,))
    order = np.array([3, 2, 1, 0])
    stack, blocks, scales = (
        lazy("s", (2, 6, 4)),
        lazy("b", (6, 2, 16), "U8"),
        lazy("c", (6, 2), "U8"),
    )
    shapes = [
        columns(matrix, order).shape,
        columns(norm, order).shape,
        transposed(matrix).shape,
        plus_one(None, norm).shape,
        reshape(matrix, (2, 3, 4)).shape,
        mxfp4(blocks, scales).shape,
        *(part.shape for part in each(stack, transposed)),
    ]
    assert shapes == [(6, 4), (4,), (4, 6), (4,), (2, 3, 4), (6, 64), (4, 6), (4, 6)]


@pytest.mark.parametrize("make", [tensor, bf16])
def test_columns_are_reordered_as_stored(make: Any) -> None:
    order = np.array([2, 0, 3])
    moved = columns(make(GRID), order)
    assert moved.shape == (3, 3)
    assert moved.type == make(GRID).type
    assert np.array_equal(moved.float32(), GRID[:, order])


def test_columns_of_a_vector_are_its_values() -> None:
    assert columns(tensor([5.0, 6.0, 7.0]), np.array([2, 0, 1])).float32().tolist() == [7, 5, 6]


@pytest.mark.parametrize("type_name", ["Q8_0", "MXFP4", "Q4_K"])
def test_columns_in_blocks_cannot_be_reordered(type_name: str) -> None:
    n = TYPES[type_name].n_per_block
    with pytest.raises(ModelError) as raised:
        columns(lazy("w", (3, n), type_name, "m.gguf"), np.arange(n))
    assert str(raised.value) == (
        f"m.gguf: tensor 'w' is {type_name}, whose columns come in blocks of {n}; expected F32, "
        "F16 or BF16 to reorder them"
    )


@pytest.mark.parametrize("make", [tensor, bf16])
def test_transposed_exchanges_rows_and_columns(make: Any) -> None:
    assert np.array_equal(transposed(make(GRID)).float32(), GRID.T)


def test_transposed_and_sliced_takes_alternate_columns() -> None:
    """The bf16 form of gpt-oss: gate and up alternate along the outputs."""
    fused = transposed(bf16(GRID))  # [4 outputs, 3 inputs]
    assert np.array_equal(fused[GATE].float32(), GRID[:, [0, 2]].T)
    assert np.array_equal(fused[UP].float32(), GRID[:, [1, 3]].T)


def test_reshape_keeps_the_rows() -> None:
    conv = tensor(GRID.reshape(3, 1, 4))
    assert np.array_equal(reshape(conv, (3, 4)).float32(), GRID)


def test_norms_gain_one_in_float32() -> None:
    """In bfloat16 the sum would be rounded: 1 + 2^-9 is not in it."""
    norm = plus_one(None, bf16(np.array([2.0**-9, -0.5, 3.0], np.float32)))
    assert norm.type.name == "F32"
    assert norm.float32().tolist() == [1 + 2.0**-9, 0.5, 4.0]


def test_elementwise_function_gives_float32() -> None:
    a = float32_map(bf16(np.array([0.0, 1.0], np.float32)), lambda x: -np.exp(x))
    assert a.float32().dtype == np.float32
    assert a.float32() == pytest.approx([-1.0, -np.e])


def publisher_block() -> tuple[U8, list[int]]:
    """One block: byte i holds element 2i in its low nibble and 2i + 1 in its high one."""
    codes = [(3 * i + 1) % 16 for i in range(32)]
    data = [codes[2 * i] | codes[2 * i + 1] << 4 for i in range(16)]
    return np.array(data, np.uint8), codes


def test_mxfp4_block_is_repacked_from_pairs_to_halves() -> None:
    """GGUF: a byte of scale, then elements 0..15 in low nibbles and 16..31 in high ones."""
    data, codes = publisher_block()
    weight = mxfp4(
        packed((1, 1, 16), data.reshape(1, 1, 16)), packed((1, 1), data[None, :1] * 0 + 130)
    )
    assert weight.shape == (1, 32)
    assert weight.type.name == "MXFP4"
    assert weight.data.shape == (1, 17)
    expected = [130] + [codes[i] | codes[i + 16] << 4 for i in range(16)]
    assert weight.data[0].tolist() == expected
    e2m1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
    assert weight.float32()[0].tolist() == [e2m1[code] * 2.0**3 for code in codes]


def test_mxfp4_blocks_stay_in_their_rows() -> None:
    data, _ = publisher_block()
    blocks = np.stack([np.roll(data, n) for n in range(6)]).reshape(3, 2, 16)
    scales = np.arange(120, 126, dtype=np.uint8).reshape(3, 2)
    whole = mxfp4(packed((3, 2, 16), blocks), packed((3, 2), scales)).float32()
    for row in range(3):
        for block in range(2):
            alone = mxfp4(
                packed((1, 1, 16), blocks[row, block].reshape(1, 1, 16)),
                packed((1, 1), scales[row, block].reshape(1, 1)),
            )
            assert np.array_equal(whole[row, 32 * block : 32 * block + 32], alone.float32()[0])


@pytest.mark.parametrize(("blocks", "scales"), [("F32", "U8"), ("U8", "BF16")])
def test_mxfp4_takes_nothing_but_bytes(blocks: str, scales: str) -> None:
    with pytest.raises(ModelError, match=r"^fake: tensor '[bs]' is \w+, expected bytes \(U8\)$"):
        mxfp4(lazy("b", (2, 1, 16), blocks), lazy("s", (2, 1), scales))


@dataclass(frozen=True)
class Heads:
    """Two key heads with three value heads each, of two values; one tap."""

    ssm_n_head_k: int = 2
    ssm_n_head_v: int = 6
    ssm_state: int = 2
    n_channel: int = 20
    n_value_per_key: int = 3
    n_qkvz: int = 32
    n_tap: int = 1


def converted(
    field: str, values: Any, holder: Any = qwen35moe.DeltaLayer, form: Literal["hf", "gguf"] = "hf"
) -> list[float]:
    """A DeltaNet tensor from the layout of a file, by the model's own table."""
    spec: Stored = holder.__dataclass_fields__[field].metadata["stored"]
    source = (spec.hf if form == "hf" else spec.gguf)[0]
    assert source.convert is not None
    out = source.convert(Heads(), tensor(values))
    assert isinstance(out, Tensor)
    return [float(value) for value in out.float32().reshape(-1)]


# Grouped, the value heads of key head 0 are 0 1 2 and of key head 1 are 3 4 5. Tiled, head h reads
# key head h % 2, so they stand as 0 3 1 4 2 5.
TILED = [0, 3, 1, 4, 2, 5]
TILED_ROWS = [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]


@pytest.mark.parametrize("field", ["ssm_alpha", "ssm_beta"])
def test_value_heads_are_tiled_row_by_row(field: str) -> None:
    assert converted(field, [[h] for h in range(6)]) == TILED


def test_value_heads_are_tiled_in_vectors() -> None:
    assert converted("ssm_dt", range(6)) == TILED
    expected = [-np.exp(h) for h in np.array(TILED) / 8]
    assert converted("ssm_a", np.arange(6) / 8) == pytest.approx(expected)


def test_value_heads_are_tiled_with_all_their_values() -> None:
    assert converted("attn_gate", [[row] for row in range(12)]) == TILED_ROWS
    assert converted("ssm_out", [list(range(12))]) == TILED_ROWS


def test_only_the_value_channels_move() -> None:
    channels = [*range(8), *(8 + row for row in TILED_ROWS)]
    assert converted("attn_qkv", [[channel] for channel in range(20)]) == channels
    assert converted("ssm_conv1d", [[[channel]] for channel in range(20)]) == channels


FUSED = {
    "attn_qkv": [0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23, 8, 9, 24, 25],
    "attn_gate": [10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31],
    "ssm_beta": [0, 6, 1, 7, 2, 8],
    "ssm_alpha": [3, 9, 4, 10, 5, 11],
}
"""Rows of Qwen3-Next's fused matrices. A key head has 2 of q, 2 of k, 6 of v and 6 of z; the next
key head's follow; and 3 of b, then 3 of a."""


@pytest.mark.parametrize("field", FUSED)
def test_fused_rows_are_taken_apart_and_tiled(field: str) -> None:
    n_row = 12 if field.startswith("ssm") else 32
    rows = [[row] for row in range(n_row)]
    assert converted(field, rows, qwen3next.DeltaLayer) == FUSED[field]


def test_qwen3next_value_heads_are_grouped_in_gguf_too() -> None:
    rows = [[row] for row in range(20)]
    channels = [*range(8), *(8 + row for row in TILED_ROWS)]
    assert converted("attn_qkv", rows, qwen3next.DeltaLayer, "gguf") == channels
    assert converted("ssm_conv1d", rows, qwen3next.DeltaLayer, "gguf") == channels
    assert converted("attn_gate", rows[:12], qwen3next.DeltaLayer, "gguf") == TILED_ROWS
    for field in ("ssm_a", "ssm_dt"):
        assert converted(field, range(6), qwen3next.DeltaLayer, "gguf") == TILED


def test_llama_rows_go_from_halves_to_neighbours() -> None:
    """A head of six: 0 1 2 turn with 3 4 5, so they stand as 0 3 1 4 2 5, head by head."""
    (source,) = llama.Layer.__dataclass_fields__["attn_q"].metadata["stored"].hf

    class Config:
        head_dim = 6

    rows = source.convert(Config, tensor([[row] for row in range(12)])).float32()[:, 0]
    assert rows.tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
