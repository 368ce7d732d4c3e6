"""Causal grouped-query attention over a paged cache, with sinks and a sliding window."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from junto.ops.reference import kv_codes
from junto.ops.views import CHUNK, F32, I32, AgedKV, KVArray, KVView, Span

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


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
    for i, span in enumerate(view.spans):
        _store(view, i, k[span.rows], v[span.rows])
        _let_age(view, i)
        for pos, n_query in _tiles(span):
            first = 0 if window is None else max(0, pos - window + 1)
            row = span.row + pos - span.pos
            rows = slice(row, row + n_query)
            y[rows] = attend(
                q[rows] * np.float32(scale),
                *_seen(view, i, first, pos + n_query),
                visible(pos, n_query, first, window),
                sinks,
            )
    return y


def _tiles(span: Span) -> Iterator[tuple[int, int]]:
    """Position and number of the queries of a span that lie in one block: they see it alike."""
    pos = span.pos
    while pos < span.end:
        end = min(span.end, (pos // CHUNK + 1) * CHUNK)
        yield pos, end - pos
        pos = end


def _store(view: KVView, i: int, k: F32, v: F32) -> None:
    """Write rows [n_tok, n_head_kv, head_dim] to the blocks that hold their positions."""
    span = view.spans[i]
    positions = np.arange(span.pos, span.end)
    blocks = _float_blocks(view, i, positions // CHUNK)
    view.k[blocks, :, :, positions % CHUNK] = k
    view.v[blocks, :, positions % CHUNK] = v


def _let_age(view: KVView, i: int) -> None:
    """Quantise the blocks whose time has come, from their float16 form."""
    if view.aged is None or view.aged.n_new[i] == 0:
        return
    table, n_new = view.aged.tables[i], view.aged.n_new[i]
    end = table.first + len(table.blocks)
    floats = _float_blocks(view, i, np.arange(end - n_new, end))
    kv_codes.write_keys(view.aged.k, table.blocks[-n_new:], view.k[floats])
    kv_codes.write_values(view.aged.v, table.blocks[-n_new:], view.v[floats])


def _float_blocks(view: KVView, i: int, blocks: I64) -> I32:
    """Where the pools hold the blocks [n] of span i."""
    table = view.tables[i]
    if view.aged is None:
        return table.blocks[blocks - table.first]
    pinned = view.aged.pinned[i]
    behind = blocks[blocks >= view.aged.n_pinned] - table.first
    return np.concatenate([pinned[blocks[blocks < view.aged.n_pinned]], table.blocks[behind]])


def _seen(view: KVView, i: int, start: int, end: int) -> tuple[F64, F64]:
    """Keys and values of positions start to end (exclusive) as queries of the last block see them.

    Each is float64 [n_head_kv, n_pos, head_dim].
    """
    first, last = start // CHUNK, (end - 1) // CHUNK
    blocks = np.arange(first, last + 1)
    codes = view.aged.held_as_codes(last) if view.aged else range(0)
    if view.aged and codes:
        assert first == 0, "blocks age only where a query sees all positions"
        pinned, near = blocks[: codes.start], blocks[codes.stop :]
        parts = [_floats(view, i, pinned), _codes(view.aged, i, codes), _floats(view, i, near)]
    else:
        parts = [_floats(view, i, blocks)]
    k, v = (_in_line([part[side] for part in parts]) for side in (0, 1))
    positions = slice(start - first * CHUNK, end - first * CHUNK)
    return k[:, positions], v[:, positions]


def _floats(view: KVView, i: int, blocks: I64) -> tuple[KVArray, KVArray]:
    """Keys and values of blocks [n], each [n, n_head_kv, 64, head_dim]."""
    held = _float_blocks(view, i, blocks)
    return view.k[held].swapaxes(2, 3), view.v[held]


def _codes(aged: AgedKV, i: int, blocks: range) -> tuple[KVArray, KVArray]:
    """The same of quantised blocks."""
    table = aged.tables[i]
    held = table.blocks[blocks.start - table.first : blocks.stop - table.first]
    return kv_codes.read_keys(aged.k, held).swapaxes(2, 3), kv_codes.read_values(aged.v, held)


def _in_line(parts: list[KVArray]) -> F64:
    """[n_block, n_head_kv, 64, head_dim] one after the other -> [n_head_kv, n_pos, head_dim]."""
    blocks = np.concatenate([part.astype(np.float64) for part in parts])
    n_head_kv, head_dim = blocks.shape[1], blocks.shape[3]
    return blocks.transpose(1, 0, 2, 3).reshape(n_head_kv, -1, head_dim)


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
