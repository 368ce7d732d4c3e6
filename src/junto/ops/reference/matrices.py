"""Weights of the reference backend, and the two ops that read a matrix: embed and linear."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from junto.errors import ModelError
from junto.formats.tensor import Tensor
from junto.ops.contract import Weight, check_token_ids
from junto.ops.views import F32, I32

F64 = npt.NDArray[np.float64]

SLAB_BYTES = 32 << 20
"""Float32 bytes of a matrix decoded at once, when it is not kept decoded."""


@dataclass(slots=True)
class Stored:
    """What hides behind `Weight.handle`: one tensor, or one an expert; or its decoded form."""

    tensor: Tensor | Sequence[Tensor]
    decoded: F64 | None = None


def stored(weight: Weight) -> Stored:
    """What the reference backend put behind a weight's handle."""
    if not isinstance(weight.handle, Stored):
        raise TypeError(f"weight {weight.name!r} was made by another backend")
    return weight.handle


def product(x: F32, values: F32 | F64) -> F32:
    """x [n_tok, n_in] @ values.T [n_in, n_out], summed in float64 and rounded once.

    In float32 the order of the sums, which BLAS changes with the number of rows, would show.
    """
    return (x.astype(np.float64) @ values.astype(np.float64, copy=False).T).astype(np.float32)


class Matrices:
    """Takes weights as they are stored, and keeps decoded forms within a budget of bytes."""

    def __init__(self, decoded_budget: int = 2 << 30) -> None:
        self._budget_left = decoded_budget

    def weight(self, tensor: Tensor | Sequence[Tensor]) -> Weight:
        """Take a stored matrix, a stack [n_expert, n_out, n_in], or one matrix an expert."""
        if isinstance(tensor, Tensor):
            return Weight(tensor.name, tensor.shape, Stored(tensor))
        first = tensor[0]
        return Weight(first.name, (len(tensor), *first.shape), Stored(tensor))

    def table(self, tensor: Tensor) -> Weight:
        """Take a matrix for its rows."""
        return self.weight(tensor)

    def embed(self, table: Weight, token_ids: I32) -> F32:
        """Rows of the table; only these are decoded."""
        check_token_ids(token_ids, table.shape[0])
        weight = stored(table)
        if weight.decoded is not None:
            return weight.decoded[token_ids].astype(np.float32)
        assert isinstance(weight.tensor, Tensor), "an embedding is one matrix"
        return weight.tensor[token_ids.astype(np.int64)].float32()

    def linear(self, x: F32, weight: Weight, bias: F32 | None = None) -> F32:
        """x @ weight.T + bias."""
        if x.shape[-1] != weight.shape[-1]:
            raise ModelError(
                f"linear: x has {x.shape[-1]} columns, {weight.name!r} has {weight.shape[-1]}; "
                "both must equal n_in"
            )
        y = np.empty((x.shape[0], weight.shape[0]), np.float32)
        for rows, values in self._slabs(weight):
            y[:, rows] = product(x, values)
        if bias is not None:
            y += bias
        return y

    def _slabs(self, weight: Weight) -> Iterator[tuple[slice, F32 | F64]]:
        """The matrix as (rows, values): whole in float64 when it is kept, else slab by slab."""
        held = stored(weight)
        n_out, n_in = weight.shape
        if held.decoded is None and 8 * n_out * n_in <= self._budget_left:
            assert isinstance(held.tensor, Tensor), "linear takes one matrix"
            held.decoded = held.tensor.float32().astype(np.float64)
            self._budget_left -= held.decoded.nbytes
        if held.decoded is not None:
            yield slice(0, n_out), held.decoded
            return
        assert isinstance(held.tensor, Tensor), "linear takes one matrix"
        step = max(1, SLAB_BYTES // (4 * n_in))
        for row in range(0, n_out, step):
            rows = slice(row, min(row + step, n_out))
            yield rows, held.tensor[rows].float32()
