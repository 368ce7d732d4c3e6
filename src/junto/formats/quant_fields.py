"""The fields that blocks of several types share: half-precision scales, nibbles, packed bits.

Everything takes blocks U8 [n_block, n_bytes_per_block] or a slice of their bytes, and copies.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from junto.formats.quant_types import F32, U8

Decoder: TypeAlias = Callable[[U8], npt.NDArray[Any]]
"""U8 [n_block, n_bytes_per_block] -> numbers [n_block, n_per_block]."""


def f16_at(blocks: U8, start: int) -> F32:
    """Return the float16 at byte `start` of each block as float32 [n_block, 1]."""
    return blocks[:, start : start + 2].view("<f2").astype(np.float32)


def words(bytes_: U8, dtype: str) -> npt.NDArray[Any]:
    """Return a run of bytes of each block as little-endian integers [n_block, n]."""
    return np.ascontiguousarray(bytes_).view(dtype)


def nibbles(bytes_: U8) -> U8:
    """Split the last axis into low nibbles, then high nibbles: [..., n] -> [..., 2, n]."""
    return np.stack([bytes_ & np.uint8(15), bytes_ >> np.uint8(4)], axis=-2)


def bit_pairs(bytes_: U8) -> U8:
    """Split the last axis into four sets of bit pairs, lowest first: [..., n] -> [..., 4, n]."""
    shifts = np.array([[0], [2], [4], [6]], np.uint8)
    return (bytes_[..., None, :] >> shifts) & np.uint8(3)


def bit_planes(bytes_: U8) -> U8:
    """Split the last axis into eight sets of single bits, lowest first: [..., n] -> [..., 8, n]."""
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    return (bytes_[..., None, :] >> shifts) & np.uint8(1)


def bit_run(bytes_: U8) -> U8:
    """Spread bytes into their bits in order, lowest first: [n_block, n] -> [n_block, 8 * n]."""
    return np.unpackbits(bytes_, axis=-1, bitorder="little")
