"""The spans of a batch as the kernels take them: rows of whole numbers."""

import numpy as np
import numpy.typing as npt

from junto.ops.views import I32, AgedKV, DeltaView, KVView


def attention_spans(view: KVView) -> tuple[I32, I32]:
    """Spans int32 [n_span, 5] (row, n_tok, pos, first block, number of blocks), and all blocks."""
    pairs = list(zip(view.spans, view.tables, strict=True))
    spans = np.array([(s.row, s.n_tok, s.pos, t.first, len(t.blocks)) for s, t in pairs], np.int32)
    return spans, np.concatenate([t.blocks for _, t in pairs])


def aged_spans(aged: AgedKV) -> tuple[I32, I32]:
    """Spans int32 [n_span, 3] (pinned, with codes, new among those), and all blocks in line."""
    trios = list(zip(aged.pinned, aged.tables, aged.n_new, strict=True))
    spans = np.array([(len(p), len(t.blocks), new) for p, t, new in trios], np.int32)
    return spans, np.concatenate([blocks for p, t, _ in trios for blocks in (p, t.blocks)])


def delta_spans(view: DeltaView) -> npt.NDArray[np.int64]:
    """Spans int64 [n_span, 5]: slot, row, n_tok, pos, anchor."""
    pairs = zip(view.spans, view.anchors, strict=True)
    return np.array([(s.slot, s.row, s.n_tok, s.pos, anchor) for s, anchor in pairs], np.int64)
