"""Causal grouped-query attention over a paged cache, with sinks and a sliding window."""

import numpy as np
import numpy.typing as npt

from junto.ops.views import CHUNK, F32, I32, BlockTable, KVArray, KVView, Span

F64 = npt.NDArray[np.float64]

QUERY_TILE = 64
"""Queries attended at once: it bounds the score matrix, not the result."""


def attention(
    q: F32,
    k: F32,
    v: F32,
    view: KVView,
    *,
    scale: float,
    window: int | None = None,
    sinks: F32 | None = None,
) -> F32:
    """Store k and v, then attend; see `junto.ops.contract.Ops.attention`."""
    y = np.empty_like(q)
    for span, table in zip(view.spans, view.tables, strict=True):
        _store(view, k[span.rows], v[span.rows], span, table)
        for start in range(0, span.n_tok, QUERY_TILE):
            pos = span.pos + start
            n_query = min(QUERY_TILE, span.n_tok - start)
            first = 0 if window is None else max(0, pos - window + 1)
            rows = slice(span.row + start, span.row + start + n_query)
            y[rows] = attend(
                q[rows] * np.float32(scale),
                gather(view.k.swapaxes(2, 3), table, first, pos + n_query),
                gather(view.v, table, first, pos + n_query),
                visible(pos, n_query, first, window),
                sinks,
            )
    return y


def _store(view: KVView, k: F32, v: F32, span: Span, table: BlockTable) -> None:
    """Write rows [n_tok, n_head_kv, head_dim] to the blocks that hold their positions."""
    positions = np.arange(span.pos, span.end)
    blocks = table.blocks[positions // CHUNK - table.first]
    view.k[blocks, :, :, positions % CHUNK] = k
    view.v[blocks, :, positions % CHUNK] = v


def gather(pool: KVArray, table: BlockTable, start: int, end: int) -> F64:
    """Positions start to end (exclusive) of a sequence -> float64 [n_head_kv, n_pos, head_dim].

    pool     [n_pool_block, n_head_kv, 64, head_dim]
    """
    first, last = start // CHUNK, (end - 1) // CHUNK
    blocks: I32 = table.blocks[first - table.first : last - table.first + 1]
    paged = pool[blocks]  # [n_block, n_head_kv, 64, head_dim]
    n_head_kv, head_dim = paged.shape[1], paged.shape[3]
    flat = paged.transpose(1, 0, 2, 3).reshape(n_head_kv, -1, head_dim).astype(np.float64)
    return flat[:, start - first * CHUNK : end - first * CHUNK]


def visible(pos: int, n_query: int, first: int, window: int | None) -> np.ndarray:
    """Which of the positions first, first+1, ... each query sees -> bool [n_query, n_pos]."""
    i = np.arange(pos, pos + n_query)[:, None]
    j = np.arange(first, pos + n_query)[None, :]
    return (j <= i) if window is None else (j <= i) & (j > i - window)


def attend(q: F32, k: F64, v: F64, mask: np.ndarray, sinks: F32 | None) -> F32:
    """Softmax attention of one tile, in float64.

    q        [n_query, n_head, head_dim], already scaled
    k, v     [n_head_kv, n_pos, head_dim]
    mask     bool [n_query, n_pos], every row with at least one True
    sinks    [n_head] or None
    returns  [n_query, n_head, head_dim]
    """
    n_query, n_head, head_dim = q.shape
    n_head_kv = k.shape[0]
    grouped = q.reshape(n_query, n_head_kv, n_head // n_head_kv, head_dim).transpose(1, 2, 0, 3)
    scores = grouped @ k[:, None].transpose(0, 1, 3, 2)  # [n_head_kv, n_group, n_query, n_pos]
    scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    if sinks is not None:
        sink = sinks.reshape(n_head_kv, -1, 1, 1)
        top = np.maximum(top, sink)
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total += np.exp(sink - top)
    y = (weights / total) @ v[:, None]  # [n_head_kv, n_group, n_query, head_dim]
    rows: F32 = y.transpose(2, 0, 1, 3).astype(np.float32)
    return rows.reshape(n_query, n_head, head_dim)
