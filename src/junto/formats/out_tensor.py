"""A tensor to be written: name, shape and type at once, and its bytes piece by piece when asked.

Writers put the sizes of all tensors into a header before the first byte of data, so what a tensor
announces and what its pieces hold must agree. It does not know the file format.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from junto.errors import FormatError
from junto.formats.atomic_file import Bytes, Sink
from junto.formats.mapped_file import forget_pages, quoted
from junto.formats.quant_types import U8, QuantType
from junto.formats.tensor import Tensor, n_bytes_stored

PIECE = 8 << 20
"""Bytes of a copied tensor that are held in memory at once."""

Advance = Callable[[int], None]
"""Called with the bytes of tensor data that have just been written, for a progress bar."""


@dataclass(frozen=True, slots=True, eq=False)
class OutTensor:
    """What a writer needs to know of a tensor.

    shape    row-major; () is a scalar
    pieces   gives the stored bytes in order, in pieces of any size; called once a writing
    """

    name: str
    shape: tuple[int, ...]
    type: QuantType
    pieces: Callable[[], Iterable[Bytes]]

    @property
    def n_bytes(self) -> int:
        """The stored size; FormatError if the rows are not whole blocks."""
        return n_bytes_stored(self.type, self.shape)

    @staticmethod
    def copy(tensor: Tensor) -> "OutTensor":
        """Write a tensor as it is stored, without its file filling the memory."""
        return OutTensor(tensor.name, tensor.shape, tensor.type, lambda: _pieces(tensor))

    def write(self, sink: Sink, advance: Advance | None = None) -> None:
        """Append the bytes; FormatError if the pieces hold more or fewer than was announced."""
        n_bytes, n_written = self.n_bytes, 0
        for piece in self.pieces():
            n = sink.write(piece)
            n_written += n
            if n_written > n_bytes:
                break
            if advance is not None:
                advance(n)
        if n_written != n_bytes:
            got = "more" if n_written > n_bytes else f"{n_written}"
            raise FormatError(
                f"tensor {quoted(self.name)}: expected {n_bytes} bytes for {self.type.name} of "
                f"shape {self.shape}, its source gave {got}"
            )


def _pieces(tensor: Tensor) -> Iterator[U8]:
    data = np.ascontiguousarray(tensor.data).reshape(-1)
    for start in range(0, data.nbytes, PIECE):
        piece = data[start : start + PIECE]
        yield piece
        forget_pages(piece)
