"""Tensors in another type, as bytes that come piece by piece.

A piece is some rows of one matrix: decoded, quantised, and forgotten, so memory does not depend on
the size of the tensor. The next pieces are decoded while one is quantised. It knows no file format.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from junto._kernels import ThreadPool
from junto.errors import FormatError, RequestError
from junto.formats.mapped_file import forget_pages
from junto.formats.out_tensor import PIECE, OutTensor
from junto.formats.quant_types import F32, U8, QuantType
from junto.formats.quants import DECODERS, dequantize
from junto.formats.tensor import Tensor
from junto.models.storing import Named
from junto.ops.cpu.processors import default_threads
from junto.quantize import QUANTIZED_TYPES, quantize

N_VALUES = 1 << 20
"""Values of a piece: 4 MB as float32, a few times that while they are decoded."""

MOST_AHEAD = 4
"""Pieces that are decoded at once."""


@dataclass(frozen=True, slots=True)
class Recoder:
    """Makes tensors to be written, of another type where that is asked.

    pool   threads that quantise together
    """

    pool: ThreadPool
    n_ahead: int

    @staticmethod
    def make() -> "Recoder":
        """One with a thread for each usable processor."""
        n = default_threads()
        return Recoder(ThreadPool(n), min(n, MOST_AHEAD))

    def out(self, named: Named, kind: QuantType, importance: F32 | None = None) -> OutTensor:
        """Say what is to be written; importance as `ImportanceMatrix.of` gives it.

        RequestError if the types that stand there, or `kind`, cannot be converted.
        """
        first = named.parts[0]
        if first.type == kind:
            return OutTensor(named.name, named.shape, kind, lambda: _copied(named))
        _check(first, kind)
        return OutTensor(
            named.name, named.shape, kind, lambda: self._recoded(named, kind, importance)
        )

    def values(self, tensor: Tensor) -> Iterator[F32]:
        """Give the rows of a tensor as float32 pieces [n_row, n], one after the other."""
        yield from self._ahead(decoders(tensor))

    def _recoded(self, named: Named, kind: QuantType, importance: F32 | None) -> Iterator[U8]:
        for i, matrix in enumerate(_matrices(named)):
            own = importance[i] if importance is not None and importance.ndim == 2 else importance
            for rows in self._ahead(decoders(matrix)):
                yield self._encoded(rows, kind, own, named.name)

    def _encoded(self, rows: F32, kind: QuantType, importance: F32 | None, name: str) -> U8:
        if kind.name == "F32":
            return np.ascontiguousarray(rows).view(np.uint8)
        return quantize(kind, rows, importance, name=f"tensor {name!r}", pool=self.pool)

    def _ahead(self, decoders: Iterable[Callable[[], F32]]) -> Iterator[F32]:
        """Results in their order, a few of them computed before they are asked for."""
        waiting = deque[Future[F32]]()
        with ThreadPoolExecutor(self.n_ahead) as workers:
            for decode in decoders:
                waiting.append(workers.submit(decode))
                if len(waiting) > self.n_ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _check(tensor: Tensor, kind: QuantType) -> None:
    if tensor.type.name not in DECODERS:
        raise FormatError(
            f"{tensor.source}: tensor {tensor.name!r} is {tensor.type.name}, which this build does "
            f"not decode; it decodes: {', '.join(DECODERS)}"
        )
    if kind.name not in (*QUANTIZED_TYPES, "F32"):
        raise RequestError(f"tensor {tensor.name!r}: {kind.name} cannot be made by this build")


def _matrices(named: Named) -> Iterator[Tensor]:
    """The parts of a tensor that have an importance of their own: experts."""
    for part in named.parts:
        if len(part.shape) > 2:
            yield from (part[i] for i in range(len(part)))
        else:
            yield part


def decoders(tensor: Tensor) -> Iterator[Callable[[], F32]]:
    """What decodes each piece of a matrix; the stored bytes are asked for once."""
    data = tensor.data
    rows = data.reshape(-1, data.shape[-1])
    n = tensor.shape[-1] if tensor.shape else 1
    step = max(1, N_VALUES // n)
    for start in range(0, len(rows), step):
        yield _Decode(tensor.type, rows[start : start + step])


@dataclass(frozen=True, slots=True)
class _Decode:
    type: QuantType
    rows: U8

    def __call__(self) -> F32:
        values = np.array(dequantize(self.type, self.rows), np.float32, copy=None)
        if values.base is not None:
            values = values.copy()  # a view of the file, whose pages are about to go
        forget_pages(self.rows)
        return values


def _copied(named: Named) -> Iterator[U8]:
    for part in named.parts:
        data = np.ascontiguousarray(part.data).reshape(-1)
        for start in range(0, data.nbytes, PIECE):
            piece = data[start : start + PIECE]
            yield piece
            forget_pages(piece)
