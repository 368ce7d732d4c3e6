"""Runs attention of any backend through a cache whose blocks age, and says what it must give.

The oracle knows the rule alone: which form a query sees of a key, from the positions of the two.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from unittest.mock import patch

import numpy as np

from junto.cache import AttentionState, Cache, KVType
from junto.cache.block_pool import BlockPool
from junto.ops.contract import Ops
from junto.ops.reference.kv_codes import quantise
from junto.ops.views import CHUNK, F32, Batch
from tests.ops.nearness import F64


@dataclass(frozen=True, slots=True)
class Rows:
    """Queries [n_tok, n_head, head_dim], keys and values [n_tok, n_head_kv, head_dim]."""

    q: F32
    k: F32
    v: F32

    def __getitem__(self, rows: slice) -> "Rows":
        return Rows(self.q[rows], self.k[rows], self.v[rows])

    def __len__(self) -> int:
        return len(self.q)

    @property
    def scale(self) -> float:
        return 1 / sqrt(self.q.shape[2])


def random_rows(seed: int, n_tok: int, n_head: int, n_head_kv: int, head_dim: int) -> Rows:
    rng = np.random.default_rng(seed)
    shapes = [(n_tok, n, head_dim) for n in (n_head, n_head_kv, n_head_kv)]
    return Rows(*(rng.standard_normal(shape).astype(np.float32) for shape in shapes))


def joined(parts: Sequence[Rows]) -> Rows:
    return Rows(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("q", "k", "v")))


def cache_for(x: Rows, kv: KVType, n_slot: int = 1, n_layer: int = 1) -> Cache:
    layer = AttentionState(n_head_kv=x.k.shape[1], head_dim=x.k.shape[2])
    return Cache([layer] * n_layer, n_slot=n_slot, n_ctx=4000, kv=kv)


def step(ops: Ops, cache: Cache, *parts: tuple[int, Rows], sinks: F32 | None = None) -> list[F32]:
    """One ragged batch of (slot, rows) -> the output of each part."""
    work = [(slot, cache.length(slot), range(len(x))) for slot, x in parts]
    batch = Batch.pack(work, all_logits=False)
    x = joined([rows for _, rows in parts])
    cache.begin(batch)
    y = ops.attention(x.q, x.k, x.v, cache.kv(0, batch), scale=x.scale, sinks=sinks)
    cache.commit(batch)
    return [y[span.rows] for span in batch.spans]


def in_steps(ops: Ops, cache: Cache, x: Rows, cuts: Sequence[int], slot: int | None = None) -> F32:
    """The whole sequence in a new slot (or one that is open), cut before the positions `cuts`."""
    slot = cache.open() if slot is None else slot
    edges = [0, *cuts, len(x)]
    return np.concatenate([step(ops, cache, (slot, x[a:b]))[0] for a, b in pairwise(edges)])


@contextmanager
def nobody_reads_what_is_free() -> Iterator[None]:
    """Blocks hold NaN when they are taken and when they are freed."""
    take, free = BlockPool.take, BlockPool.free

    def poison(pool: BlockPool, blocks: list[int]) -> None:
        for layer in pool._layers:
            for array in layer:
                array[blocks] = np.nan if array.dtype.kind == "f" else 77

    def poisoned_take(pool: BlockPool, n_block: int) -> list[int]:
        blocks = take(pool, n_block)
        poison(pool, blocks)
        return blocks

    def poisoned_free(pool: BlockPool, blocks: Sequence[int]) -> None:
        poison(pool, list(blocks))
        free(pool, blocks)

    with (
        patch.object(BlockPool, "take", poisoned_take),
        patch.object(BlockPool, "free", poisoned_free),
    ):
        yield


def attention_by_age(x: Rows, kv: KVType, sinks: F32 | None = None) -> F64:
    """A whole sequence from position 0, row by row in float64 -> [n_tok, n_head, head_dim]."""
    near, far = ([_held(a, kv, is_far) for a in (x.k, x.v)] for is_far in (False, True))
    n_tok, n_head, _ = x.q.shape
    y = np.zeros(x.q.shape)
    for i in range(n_tok):
        is_far = np.array([_is_far(i // CHUNK, j // CHUNK, kv) for j in range(i + 1)])
        k, v = (
            np.where(is_far[:, None, None], f[: i + 1], n[: i + 1])
            for n, f in zip(near, far, strict=True)
        )
        for head in range(n_head):
            head_kv = head * k.shape[1] // n_head
            score = k[:, head_kv] @ x.q[i, head].astype(np.float64) * x.scale
            top = score.max() if sinks is None else max(score.max(), float(sinks[head]))
            weight = np.exp(score - top)
            total = weight.sum() + (0 if sinks is None else np.exp(float(sinks[head]) - top))
            y[i, head] = weight @ v[:, head_kv] / total
    return y


def _is_far(query_block: int, block: int, kv: KVType) -> bool:
    n_pinned, n_recent = -(-kv.sinks // CHUNK), -(-kv.window // CHUNK)
    return kv.name[0] == "q" and block >= n_pinned and query_block - block > n_recent


def _held(rows: F32, kv: KVType, is_far: bool) -> F64:
    """What is left of rows in one form."""
    half = rows.astype(np.float16)
    if not is_far:
        return half.astype(np.float64)
    codes, scales = quantise(half, kv.name == "q8_0")
    held: F64 = np.repeat(scales.astype(np.float64), 32, axis=-1) * codes
    return held
