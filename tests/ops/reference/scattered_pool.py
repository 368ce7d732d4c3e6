"""Paged storage for tests: blocks in shuffled order, and NaN wherever nobody has written."""

from dataclasses import dataclass

import numpy as np

from junto.ops.views import CHUNK, F32, BlockTable, KVView, Span


@dataclass(frozen=True, slots=True)
class Rows:
    """Queries, keys and values of consecutive tokens of one sequence."""

    q: F32
    k: F32
    v: F32

    def __getitem__(self, tokens: slice) -> "Rows":
        return Rows(self.q[tokens], self.k[tokens], self.v[tokens])

    @property
    def n_tok(self) -> int:
        return len(self.q)


def random_rows(seed: int, n_tok: int, n_head: int, n_head_kv: int, head_dim: int) -> Rows:
    rng = np.random.default_rng(seed)
    shapes = (n_tok, n_head, head_dim), (n_tok, n_head_kv, head_dim), (n_tok, n_head_kv, head_dim)
    return Rows(*(rng.standard_normal(shape).astype(np.float32) for shape in shapes))


class ScatteredPool:
    """KV blocks of one layer for any number of sequences, by slot number."""

    def __init__(
        self, n_head_kv: int, head_dim: int, n_block: int = 17, rest: float = np.nan, seed: int = 0
    ) -> None:
        self.k = np.full((n_block, n_head_kv, head_dim, CHUNK), rest, np.float32)
        self.v = np.full((n_block, n_head_kv, CHUNK, head_dim), rest, np.float32)
        self._free = list(np.random.default_rng(seed).permutation(n_block))
        self._blocks: dict[int, list[int]] = {}
        self._first: dict[int, int] = {}

    def view(self, spans: tuple[Span, ...]) -> KVView:
        """Tables that reach to the end of each span."""
        tables = tuple(self._table(span.slot, span.end) for span in spans)
        return KVView(self.k, self.v, spans, tables)

    def drop_first(self, slot: int, n_block: int) -> None:
        """Forget the oldest blocks of a sequence: their content becomes NaN."""
        for block in self._blocks[slot][:n_block]:
            self.k[block] = self.v[block] = np.nan
        del self._blocks[slot][:n_block]
        self._first[slot] = self._first.get(slot, 0) + n_block

    def _table(self, slot: int, end: int) -> BlockTable:
        first, blocks = self._first.get(slot, 0), self._blocks.setdefault(slot, [])
        while (first + len(blocks)) * CHUNK < end:
            blocks.append(self._free.pop())
        return BlockTable(first, np.array(blocks, np.int32))
