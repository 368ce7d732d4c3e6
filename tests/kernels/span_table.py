"""Spans of a view as the DeltaNet kernels take them."""

import numpy as np
import numpy.typing as npt

from junto.ops.views import DeltaView


def span_table(view: DeltaView) -> npt.NDArray[np.int64]:
    """int64 [n_span, 5]: slot, row, n_tok, pos, anchor."""
    rows = [
        (span.slot, span.row, span.n_tok, span.pos, anchor)
        for span, anchor in zip(view.spans, view.anchors, strict=True)
    ]
    return np.asarray(rows, np.int64).reshape(-1, 5)
