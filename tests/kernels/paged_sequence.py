"""Runs the attention kernel on sequences whose blocks lie scattered in a pool full of NaN."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from junto import _kernels
from junto.ops.views import CHUNK, F32, I32

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Queries [n_tok, n_head, head_dim], keys and values [n_tok, n_head_kv, head_dim]."""

    q: F32
    k: F32
    v: F32

    def __getitem__(self, rows: slice) -> "Rows":
        return Rows(self.q[rows], self.k[rows], self.v[rows])


def random_rows(seed: int, n_tok: int, n_head: int, n_head_kv: int, head_dim: int) -> Rows:
    rng = np.random.default_rng(seed)
    shapes = [(n_tok, n, head_dim) for n in (n_head, n_head_kv, n_head_kv)]
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return Rows(q, k, v)


def joined(parts: Sequence[Rows]) -> Rows:
    return Rows(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("q", "k", "v")))


class Pools:
    """Keys and values of `n_slot` sequences of up to `n_pos` positions, in shuffled blocks."""

    def __init__(
        self,
        n_head_kv: int,
        head_dim: int,
        n_pos: int,
        n_slot: int = 1,
        stored: npt.DTypeLike = np.float32,
    ) -> None:
        n_block = -(-n_pos // CHUNK)
        order = np.random.default_rng(5).permutation(n_slot * n_block + 3).astype(np.int32)
        self.tables: list[I32] = [order[i * n_block : (i + 1) * n_block] for i in range(n_slot)]
        self.k = np.full((len(order), n_head_kv, head_dim, CHUNK), np.nan, stored)
        self.v = np.full((len(order), n_head_kv, CHUNK, head_dim), np.nan, stored)


@dataclass(frozen=True, slots=True)
class Kernel:
    """How to call the kernel: at which level, on which threads, with which options."""

    level: str
    pool: _kernels.ThreadPool
    window: int | None = None
    sinks: F32 | None = None

    def step(self, pools: Pools, *parts: tuple[int, int, Rows]) -> list[F32]:
        """One ragged batch of (slot, position, rows) -> the output of each part."""
        x = joined([rows for _, _, rows in parts])
        y = np.full_like(x.q, np.nan)
        spans, row = [], 0
        for slot, pos, rows in parts:
            spans.append((row, len(rows.q), pos, 0, len(pools.tables[slot])))
            row += len(rows.q)
        _kernels.attention(
            self.level,
            self.pool,
            x.q,
            x.k,
            x.v,
            pools.k,
            pools.v,
            np.array(spans, np.int32),
            np.concatenate([pools.tables[slot] for slot, _, _ in parts]),
            x.q.shape[2] ** -0.5,
            self.window,
            self.sinks,
            y,
        )
        return np.split(y, np.cumsum([len(rows.q) for _, _, rows in parts])[:-1])


def in_steps(kernel: Kernel, pools: Pools, x: Rows, cuts: Sequence[int], slot: int = 0) -> F32:
    """The whole sequence, cut before the positions `cuts`."""
    edges = [0, *cuts, len(x.q)]
    return np.concatenate([kernel.step(pools, (slot, a, x[a:b]))[0] for a, b in pairwise(edges)])


def softmax_attention(x: Rows, window: int | None = None, sinks: Any = None) -> F64:
    """A whole sequence from position 0, row by row in float64 -> [n_tok, n_head, head_dim]."""
    q, k, v = (a.astype(np.float64) for a in (x.q, x.k, x.v))
    n_tok, n_head, head_dim = q.shape
    y = np.zeros_like(q)
    for i in range(n_tok):
        seen = slice(0 if window is None else max(0, i - window + 1), i + 1)
        for head in range(n_head):
            head_kv = head * k.shape[1] // n_head
            score = k[seen, head_kv] @ q[i, head] * head_dim**-0.5
            top = score.max() if sinks is None else max(score.max(), float(sinks[head]))
            weight = np.exp(score - top)
            total = weight.sum() + (0 if sinks is None else np.exp(float(sinks[head]) - top))
            y[i, head] = weight @ v[seen, head_kv] / total
    return y
