"""Conversions from the layouts of safetensors checkpoints to GGUF's, which are ours.

All are lazy: they give a tensor of the new shape at once and touch its bytes when it is read.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from junto.errors import ModelError
from junto.formats.quants import TYPES
from junto.formats.tensor import F32, U8, Tensor

I64 = npt.NDArray[np.int64]


def float32_map(tensor: Tensor, function: Callable[[F32], F32]) -> Tensor:
    """The tensor's values through an elementwise function, as float32."""

    def read() -> U8:
        values = np.ascontiguousarray(function(tensor.float32()), dtype=np.float32)
        return values.view(np.uint8)

    return replace(tensor, type=TYPES["F32"], read=read)


def plus_one(_cfg: Any, norm: Tensor) -> Tensor:
    """A norm weight that is stored minus one."""
    return float32_map(norm, lambda w: w + np.float32(1))


def reshape(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The same rows under other leading axes; the last axis stays."""
    return replace(
        tensor, shape=shape, read=lambda: tensor.data.reshape(*shape[:-1], tensor.data.shape[-1])
    )


def columns(tensor: Tensor, order: I64) -> Tensor:
    """The tensor's columns in another order; its type must store them one by one."""
    if tensor.type.n_per_block != 1:
        raise ModelError(
            f"{tensor.source}: tensor {tensor.name!r} is {tensor.type.name}, whose columns come in "
            f"blocks of {tensor.type.n_per_block}; expected F32, F16 or BF16 to reorder them"
        )
    n_bytes = tensor.type.n_bytes_per_block

    def read() -> U8:
        data = tensor.data
        cells = data.reshape(*data.shape[:-1], -1, n_bytes)[..., order, :]
        return cells.reshape(*data.shape[:-1], -1)

    return replace(tensor, shape=(*tensor.shape[:-1], len(order)), read=read)


def transposed(tensor: Tensor) -> Tensor:
    """A matrix with rows and columns exchanged; its type must store values one by one."""
    assert tensor.type.n_per_block == 1, "only safetensors are transposed, which have no blocks"
    n_rows, n_columns = tensor.shape
    n_bytes = tensor.type.n_bytes_per_block

    def read() -> U8:
        cells = tensor.data.reshape(n_rows, n_columns, n_bytes)
        return np.ascontiguousarray(cells.transpose(1, 0, 2)).reshape(n_columns, -1)

    return replace(tensor, shape=(n_columns, n_rows), read=read)


def stacked_rows(first: Tensor, second: Tensor) -> Tensor:
    """Two matrices of the same width and type as one: the rows of the first, then the second's."""
    assert (first.shape[1:], first.type) == (second.shape[1:], second.type), "parts of one matrix"
    shape = (first.shape[0] + second.shape[0], *first.shape[1:])
    return replace(first, shape=shape, read=lambda: np.concatenate([first.data, second.data]))


def interleaved_rows(first: Tensor, second: Tensor) -> Tensor:
    """Two matrices of the same shape and type as one: a row of the first, one of the second."""
    assert (first.shape, first.type) == (second.shape, second.type), "two halves of one matrix"
    n_row, n_column = first.shape

    def read() -> U8:
        return np.stack([first.data, second.data], axis=1).reshape(2 * n_row, -1)

    return replace(first, shape=(2 * n_row, n_column), read=read)


def interleaved_columns(first: Tensor, second: Tensor) -> Tensor:
    """The same, a column of the first, one of the second; their type stores values one by one."""
    assert (first.shape, first.type) == (second.shape, second.type), "two halves of one matrix"
    assert first.type.n_per_block == 1, "biases have no blocks"
    shape = (*first.shape[:-1], 2 * first.shape[-1])
    n_bytes = first.type.n_bytes_per_block

    def read() -> U8:
        cells = [half.data.reshape(*half.shape, n_bytes) for half in (first, second)]
        return np.stack(cells, axis=-2).reshape(*shape[:-1], -1)

    return replace(first, shape=shape, read=read)


def mxfp4(blocks: Tensor, scales: Tensor) -> Tensor:
    """A matrix in GGUF's MXFP4 from the publisher's blocks [n, m, 16] and scales [n, m].

    The publisher's byte i of a block holds elements 2i (low nibble) and 2i + 1; GGUF's holds
    elements i (low) and i + 16, after one byte of scale.
    """
    n_out, n_block, _ = blocks.shape
    for part in (blocks, scales):
        if (part.type.n_per_block, part.type.n_bytes_per_block) != (1, 1):
            raise ModelError(
                f"{part.source}: tensor {part.name!r} is {part.type.name}, expected bytes (U8)"
            )

    def read() -> U8:
        pairs = blocks.data.reshape(n_out, n_block, 16)
        codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(n_out, n_block, 32)
        packed = codes[..., :16] | (codes[..., 16:] << 4)
        scale = scales.data.reshape(n_out, n_block, 1)
        return np.concatenate([scale, packed], axis=-1).reshape(n_out, n_block * 17)

    return replace(blocks, shape=(n_out, n_block * 32), type=TYPES["MXFP4"], read=read)


class Experts(Sequence[Tensor]):
    """One matrix an expert, each made when it is asked for.

    A checkpoint has tens of thousands; that many objects, made to be looked at once, are slow.
    """

    def __init__(self, n: int, make: Callable[[int], Tensor]) -> None:
        self._n = n
        self._make = make

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | list[Tensor]:
        chosen = range(self._n)[index]
        return self._make(chosen) if isinstance(chosen, int) else [self._make(i) for i in chosen]


def each(stack: Tensor | Sequence[Tensor], convert: Callable[[Tensor], Tensor]) -> Experts:
    """A conversion of each expert's matrix, one by one, so that reading one reads no other."""
    return Experts(len(stack), lambda expert: convert(stack[expert]))
