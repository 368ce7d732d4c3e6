"""Storage in blocks of 64 positions: a pool that grows, and runs of blocks that follow each other.

Knows nothing of keys, values or time. All layers of a pool take and free blocks together.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from junto.ops.views import BlockTable, Holder, KVArray


@dataclass(frozen=True, slots=True)
class BlockArray:
    """One array of a pool: the shape of a block in it, and its type."""

    shape: tuple[int, ...]
    dtype: npt.DTypeLike

    @property
    def n_bytes(self) -> int:
        """Bytes of a block."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class BlockPool:
    """Blocks of `n_layer` layers, each with the same arrays [n_block, *shape].

    holders   who else holds the arrays, and lets go of them before they move; any
    """

    def __init__(
        self, n_layer: int, arrays: Sequence[BlockArray], holders: Iterable[Holder] = ()
    ) -> None:
        self._holders = holders
        self._layers: list[list[KVArray]] = [
            [np.zeros((0, *array.shape), array.dtype) for array in arrays] for _ in range(n_layer)
        ]
        self._free: list[int] = []
        self._n_block = 0
        self.n_bytes_block = n_layer * sum(array.n_bytes for array in arrays)
        """Bytes of one block in all layers."""

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for arrays in self._layers for array in arrays)

    def layer(self, index: int) -> tuple[KVArray, ...]:
        """The arrays of one layer, in the order they were declared."""
        return tuple(self._layers[index])

    def take(self, n_block: int) -> list[int]:
        """Blocks that nobody holds; their content is undefined."""
        if n_block > len(self._free):
            self._grow(n_block - len(self._free))
        return [self._free.pop() for _ in range(n_block)]

    def free(self, blocks: Iterable[int]) -> None:
        """Give blocks back."""
        self._free.extend(blocks)

    def _grow(self, n_block: int) -> None:
        """Make room for at least `n_block` more: by half the pool, so that growing stays linear."""
        for holder in self._holders:
            holder.let_go()
        old = self._n_block
        self._n_block = old + max(n_block, old // 2)
        for arrays in self._layers:
            for i, array in enumerate(arrays):
                grown = np.zeros((self._n_block, *array.shape[1:]), array.dtype)
                grown[:old] = array
                arrays[i] = grown
        self._free.extend(reversed(range(old, self._n_block)))


class BlockRun:
    """The pool's blocks that hold the blocks first, first + 1, ... of one sequence."""

    def __init__(self, pool: BlockPool, first: int = 0) -> None:
        self._pool = pool
        self._blocks: list[int] = []
        self._start = first
        self.first = first

    def __len__(self) -> int:
        """Blocks held."""
        return len(self._blocks)

    @property
    def end(self) -> int:
        """The block of the sequence after the last that is held."""
        return self.first + len(self._blocks)

    def table(self) -> BlockTable:
        """The run as ops read it."""
        return BlockTable(self.first, np.asarray(self._blocks, np.int32))

    def extend_to(self, end: int) -> None:
        """Hold the blocks below `end`."""
        if end > self.end:
            self._blocks += self._pool.take(end - self.end)

    def drop_before(self, block: int) -> None:
        """Free the blocks below `block`."""
        n = min(max(block - self.first, 0), len(self._blocks))
        self._pool.free(self._blocks[:n])
        del self._blocks[:n]
        self.first += n

    def drop_from(self, block: int) -> None:
        """Free `block` and those after it."""
        keep = max(block - self.first, 0)
        self._pool.free(self._blocks[keep:])
        del self._blocks[keep:]
        self.first = max(self._start, min(self.first, block))

    def clear(self) -> None:
        """Free all and begin anew."""
        self.drop_from(self._start)
