"""The spans of a batch as the kernels take them: rows of whole numbers."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from junto.ops.views import I32, AgedKV, DeltaView, KVView

I64 = npt.NDArray[np.int64]


class KVRows(NamedTuple):
    """What a `KVView` says of its sequences.

    spans         int32 [n_span, 5]: row, n_tok, pos, first block, number of blocks
    blocks        all blocks in line
    aged_spans    int32 [n_span, 3]: pinned, with codes, new among those; where blocks age
    aged_blocks   all of these in line
    """

    spans: I32
    blocks: I32
    aged_spans: I32
    aged_blocks: I32


@dataclass(frozen=True, slots=True)
class FixedKV(KVView):
    """A view whose rows lie in arrays of its own."""

    rows: KVRows = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class FixedDelta(DeltaView):
    """A view whose rows lie in an array of its own."""

    rows: I64 = field(kw_only=True)


def kv_rows(view: KVView) -> KVRows:
    """The rows of an attention layer."""
    if isinstance(view, FixedKV):
        return view.rows
    return KVRows(*_attention_spans(view), *_aged_spans(view.aged))


def _attention_spans(view: KVView) -> tuple[I32, I32]:
    pairs = list(zip(view.spans, view.tables, strict=True))
    spans = np.array([(s.row, s.n_tok, s.pos, t.first, len(t.blocks)) for s, t in pairs], np.int32)
    return spans, np.concatenate([t.blocks for _, t in pairs])


def _aged_spans(aged: AgedKV | None) -> tuple[I32, I32]:
    if aged is None:
        return np.empty((0, 3), np.int32), np.empty(0, np.int32)
    trios = list(zip(aged.pinned, aged.tables, aged.n_new, strict=True))
    spans = np.array([(len(p), len(t.blocks), new) for p, t, new in trios], np.int32)
    return spans, np.concatenate([blocks for p, t, _ in trios for blocks in (p, t.blocks)])


def delta_rows(view: DeltaView) -> I64:
    """Rows int64 [n_span, 5] of a DeltaNet layer: slot, row, n_tok, pos, anchor."""
    if isinstance(view, FixedDelta):
        return view.rows
    pairs = zip(view.spans, view.anchors, strict=True)
    return np.array([(s.slot, s.row, s.n_tok, s.pos, anchor) for s, anchor in pairs], np.int64)
