"""Paged keys and values of the attention layers that forget alike.

All layers of a group share one block table a slot; each layer has its own pool. A group with a
sliding window frees the blocks that no later query can see, less one block of slack, so that the
last 64 tokens can always be dropped again.

    positions      0 ... 63 | 64 ... 127 | 128 ... 191 | 192 ...
    logical block      0    |     1      |      2      |    3
    table              freed, first = 1  |  pool 7     |  pool 2
"""

import numpy as np

from junto.errors import RequestError
from junto.ops.views import CHUNK, BlockTable, KVArray, KVView, Span

KVType = type[np.float32] | type[np.float16]


class PagedKV:
    """Keys and values of `n_layer` attention layers for `n_slot` sequences.

    window   positions a query sees, itself included; None sees all
    dtype    how keys and values are held
    """

    def __init__(
        self,
        n_layer: int,
        n_head_kv: int,
        head_dim: int,
        n_slot: int,
        window: int | None,
        dtype: KVType = np.float32,
    ) -> None:
        self.window = window
        k, v = (0, n_head_kv, head_dim, CHUNK), (0, n_head_kv, CHUNK, head_dim)
        self._k: list[KVArray] = [np.zeros(k, dtype) for _ in range(n_layer)]
        self._v: list[KVArray] = [np.zeros(v, dtype) for _ in range(n_layer)]
        self._free: list[int] = []
        self._first = [0] * n_slot
        self._blocks: list[list[int]] = [[] for _ in range(n_slot)]

    @property
    def n_bytes(self) -> int:
        """Bytes of keys and values that are resident."""
        return sum(pool.nbytes for pool in (*self._k, *self._v))

    @property
    def n_block_used(self) -> int:
        """Blocks that hold positions of a sequence."""
        return sum(map(len, self._blocks))

    def table(self, slot: int) -> BlockTable:
        """Where the blocks of one sequence lie."""
        return BlockTable(self._first[slot], np.asarray(self._blocks[slot], np.int32))

    def reserve(self, slot: int, n_pos: int) -> None:
        """Hold blocks for the positions below `n_pos`."""
        missing = -(-n_pos // CHUNK) - self._first[slot] - len(self._blocks[slot])
        if missing > len(self._free):
            self._grow(missing - len(self._free))
        for _ in range(missing):
            self._blocks[slot].append(self._free.pop())

    def view(self, layer: int, spans: tuple[Span, ...]) -> KVView:
        """What attention of the group's `layer` reads and writes in this step."""
        tables = tuple(self.table(span.slot) for span in spans)
        return KVView(self._k[layer], self._v[layer], spans, tables)

    def forget_unseen(self, slot: int, n_pos: int) -> None:
        """Free the blocks that no query from position n_pos - 64 on can see."""
        if self.window is None:
            return
        oldest_seen = max(0, n_pos - CHUNK - self.window + 1)
        while self._first[slot] < oldest_seen // CHUNK and self._blocks[slot]:
            self._free.append(self._blocks[slot].pop(0))
            self._first[slot] += 1

    def check_truncate(self, slot: int, n_pos: int) -> None:
        """RequestError if keys that a query at `n_pos` sees have been freed."""
        oldest_seen = 0 if self.window is None else max(0, n_pos - self.window + 1)
        held_from = self._first[slot] * CHUNK
        if oldest_seen < held_from:
            raise RequestError(
                f"slot {slot}: cannot truncate to {n_pos} tokens: the sliding window's keys before "
                f"{held_from} are freed (nearest: {held_from + (self.window or 0) - 1})"
            )

    def truncate(self, slot: int, n_pos: int) -> None:
        """Keep only the blocks of positions below `n_pos`."""
        keep = max(0, -(-n_pos // CHUNK) - self._first[slot])
        self._free.extend(self._blocks[slot][keep:])
        del self._blocks[slot][keep:]

    def clear(self, slot: int) -> None:
        """Free all blocks of a slot."""
        self._free.extend(self._blocks[slot])
        self._blocks[slot].clear()
        self._first[slot] = 0

    def _grow(self, n_block: int) -> None:
        """Make room for at least `n_block` more: by half the pool, so that growing stays linear."""
        old = len(self._k[0])
        new = old + max(n_block, old // 2)
        for pools in (self._k, self._v):
            for i, pool in enumerate(pools):
                grown = np.zeros((new, *pool.shape[1:]), pool.dtype)
                grown[:old] = pool
                pools[i] = grown
        self._free.extend(reversed(range(old, new)))
