"""A named tensor of a model file: shape, stored type, and bytes that are fetched when asked for.

It does not know which file format it came from, nor what the model does with it. Shapes are
row-major, slowest axis first, so a GGUF tensor's dimensions stand here in reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from junto.errors import FormatError
from junto.formats.quant_types import F32, TYPES, U8, QuantType
from junto.formats.quants import dequantize

__all__ = ["F32", "U8", "Tensor"]


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A lazy tensor.

    shape   row-major; () is a scalar
    source  the file it is from, for messages
    read    returns U8 [*shape[:-1], n_bytes_row]: a view of the file, or bytes made on each call
    """

    name: str
    shape: tuple[int, ...]
    type: QuantType
    source: str
    read: Callable[[], U8]

    @property
    def data(self) -> U8:
        """The stored bytes, U8 [*shape[:-1], n_bytes_row]; a scalar has [n_bytes_row]."""
        return self.read()

    @property
    def n_bytes(self) -> int:
        """The stored size, worked out from shape and type without a read."""
        return n_bytes_stored(self.type, self.shape)

    def float32(self) -> F32:
        """Decode the whole tensor to F32 [*shape]; FormatError if its type cannot be decoded.

        A tensor stored as float32 may come back as a read-only view of the file.
        """
        try:
            return dequantize(self.type, self.data).reshape(self.shape)
        except FormatError as error:
            raise FormatError(f"{self.source}: tensor {self.name!r}: {error}") from None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"tensor {self.name!r} is a scalar and has no length")
        return self.shape[0]

    def __getitem__(self, index: int | slice | npt.NDArray[np.integer[Any]]) -> Tensor:
        """Select along the first axis, lazily: an int drops it, a slice or index array keeps it.

        Ints and slices stay views of the file; an index array copies the chosen rows on each read.
        TypeError below two axes, as a row is not cut; IndexError if an index is out of range.
        """
        if len(self.shape) < 2:
            raise TypeError(f"tensor {self.name!r} of shape {self.shape} has no rows to select")
        kept = _selected(index, self.shape[0], self.name)
        shape = (*kept, *self.shape[1:])
        return Tensor(self.name, shape, self.type, self.source, lambda: self.read()[index])

    @staticmethod
    def from_array(name: str, array: F32, source: str) -> Tensor:
        """Wrap float32 values [*shape] that are already in memory."""
        values = np.ascontiguousarray(array, np.float32)  # a scalar becomes [1]
        data = values.view(np.uint8)
        return Tensor(name, array.shape, TYPES["F32"], source, lambda: data)


def _selected(
    index: int | slice | npt.NDArray[np.integer[Any]], n: int, name: str
) -> tuple[int, ...]:
    """Return the axes that an index leaves of one of length `n`; a wrong one fails here already.

    Models take slices of each of tens of thousands of experts, so no array is made for those.
    """
    if isinstance(index, slice):
        return (len(range(*index.indices(n))),)
    if isinstance(index, np.ndarray):
        chosen: npt.NDArray[np.uint8] = np.broadcast_to(np.uint8(0), (n,))[index]
        return chosen.shape
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of range for tensor {name!r} of {n} rows")
    return ()


def stored_shape(type: QuantType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in bytes, (*shape[:-1], n_bytes_row); a scalar is a row of one value.

    FormatError if the rows are not whole blocks.
    """
    return (*shape[:-1], type.n_bytes_row(shape[-1] if shape else 1))


def n_bytes_stored(type: QuantType, shape: tuple[int, ...]) -> int:
    """Return the bytes of a whole tensor; FormatError if the rows are not whole blocks."""
    return math.prod(stored_shape(type, shape))
