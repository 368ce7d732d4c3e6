"""What ops read and write besides plain arrays: ragged batches and the caches' storage.

`cache` fills these dataclasses, backends use them, and neither knows the other.
Everything recurrent or paged is aligned to 64 tokens of absolute position.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I32 = npt.NDArray[np.int32]

KVArray = npt.NDArray[Any]
"""Keys or values as they are held: float32 or float16."""

CHUNK = 64
"""Tokens in a KV block and in a DeltaNet chunk; both begin at multiples of it."""


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of a batch that belong to one sequence.

    slot     seat of the sequence in the cache
    row      first row in the batch
    n_tok    number of rows, at least 1
    pos      position of the first of them in its sequence
    """

    slot: int
    row: int
    n_tok: int
    pos: int

    @property
    def rows(self) -> slice:
        """The rows of this span in the batch."""
        return slice(self.row, self.row + self.n_tok)

    @property
    def end(self) -> int:
        """Position after the last token of this span."""
        return self.pos + self.n_tok


@dataclass(frozen=True, slots=True)
class Batch:
    """The tokens of one step: rows of several sequences, one after the other (ragged).

    token_ids   int32 [n_tok]
    positions   int32 [n_tok]        position of each row in its own sequence
    spans       one per sequence, in the order of their rows
    logit_rows  int32 [n_logit]      the rows whose logits are wanted
    """

    token_ids: I32
    positions: I32
    spans: tuple[Span, ...]
    logit_rows: I32

    @staticmethod
    def pack(parts: Sequence[tuple[int, int, Sequence[int]]], *, all_logits: bool) -> "Batch":
        """Pack (slot, position, token ids) of several sequences into one batch.

        With `all_logits` every row gives logits, else the last row of each sequence.
        """
        spans, row = [], 0
        for slot, pos, ids in parts:
            spans.append(Span(slot, row, len(ids), pos))
            row += len(ids)
        positions = [np.arange(s.pos, s.end, dtype=np.int32) for s in spans]
        last = [s.row + s.n_tok - 1 for s in spans]
        return Batch(
            token_ids=np.concatenate([np.asarray(ids, dtype=np.int32) for _, _, ids in parts]),
            positions=np.concatenate(positions),
            spans=tuple(spans),
            logit_rows=np.asarray(range(row) if all_logits else last, dtype=np.int32),
        )


@dataclass(frozen=True, slots=True)
class BlockTable:
    """Where the KV blocks of one sequence lie in the pool.

    first    number of the first block that is still held; block b holds positions 64b to 64b+63
    blocks   int32 [n_block]     pool index of blocks first, first+1, ...
    """

    first: int
    blocks: I32


@dataclass(frozen=True, slots=True)
class Codes:
    """Quantised keys or values of a pool of blocks: value = code * scale.

    codes    int8 (Q8_0), or uint8 (Q4_0) with two rows a byte and half as long in axis 2: code + 8
             of an even row low, of the row after it high
    scales   float16 [n_pool_block, n_head_kv, head_dim / 32, 64]: as Q8_0 and Q4_0 have it, one
             for 32 values along head_dim of one position
    """

    codes: KVArray
    scales: npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class AgedKV:
    """The quantised form of blocks that have left the window, for the sequences of one batch.

    A query in block B sees block b quantised if b >= n_pinned and B - b > n_recent, else in
    float16. That depends on positions alone, so a block lives in both forms while queries of one
    step, or a truncation, may still want either.

    k         codes [n_pool_block, n_head_kv, head_dim, 64]: positions are lanes
    v         codes [n_pool_block, n_head_kv, 64, head_dim]
    pinned    for each span, pool index of the float16 blocks 0 to n_pinned - 1 that it has begun
    tables    for each span, where its quantised blocks n_pinned, n_pinned + 1, ... lie
    n_new     for each span, how many at the end of its table attention quantises in this step,
              from the float16 form and after the new rows are stored; they are full by then
    """

    k: Codes
    v: Codes
    n_pinned: int
    n_recent: int
    pinned: tuple[I32, ...]
    tables: tuple[BlockTable, ...]
    n_new: tuple[int, ...]

    def held_as_codes(self, query_block: int) -> range:
        """The blocks that a query in `query_block` sees quantised."""
        return range(self.n_pinned, max(self.n_pinned, query_block - self.n_recent))


@dataclass(frozen=True, slots=True)
class KVView:
    """Paged keys and values of one attention layer, for the sequences of one batch.

    k        [n_pool_block, n_head_kv, head_dim, 64], float32 or float16: positions are lanes, so
             that a score is a sum over rows of lanes; attention writes the new rows
    v        [n_pool_block, n_head_kv, 64, head_dim], of the same type; the same
    spans    the spans of the batch
    tables   one for each span; they cover every position the span writes
    aged     None where every block is in the pools; else the tables begin behind the pinned blocks
    """

    k: KVArray
    v: KVArray
    spans: tuple[Span, ...]
    tables: tuple[BlockTable, ...]
    aged: AgedKV | None = None


@dataclass(frozen=True, slots=True)
class DeltaView:
    """Anchored state of one DeltaNet layer, for the sequences of one batch.

    state    float32 [n_slot, n_head_v, S_k, S_v]   M0, the state at the anchor
    k        float32 [n_slot, 64, n_head_k, S_k]    normalised keys since the anchor
    u        float32 [n_slot, 64, n_head_v, S_v]    their corrections beta * (v - pred)
    decay    float32 [n_slot, 64, n_head_v]         log-decay of each of those tokens
    conv     float32 [n_slot, n_tap - 1 + 64, n_channel]
             raw inputs of the convolution; row n_tap - 1 + j belongs to position anchor + j
    spans    the spans of the batch
    anchors  position of M0 for each span when the step begins, a multiple of 64; the span's
             first position is at most 64 beyond it

    A list that is full folds into M0 when the next token arrives, so dropping the last
    tokens down to the anchor is free.
    """

    state: F32
    k: F32
    u: F32
    decay: F32
    conv: F32
    spans: tuple[Span, ...]
    anchors: tuple[int, ...]


class Holder(Protocol):
    """Who holds arrays of views for longer than a step."""

    def let_go(self) -> None:
        """Hold them no longer: they are about to move."""
        ...


def anchor_after(anchor: int, end: int) -> int:
    """Anchor of a DeltaNet list once the tokens up to position `end` (exclusive) are in."""
    return anchor + CHUNK * ((end - anchor - 1) // CHUNK) if end > anchor else anchor
