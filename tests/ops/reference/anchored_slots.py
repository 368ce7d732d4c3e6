"""DeltaNet slots for tests: fresh states are zero, lists hold NaN until they are written."""

import numpy as np

from junto.ops.views import CHUNK, DeltaView, Span, anchor_after


class AnchoredSlots:
    """State of one layer for a few sequences, and the anchors that a cache would keep."""

    def __init__(
        self, n_head_k: int, n_head_v: int, s_k: int, s_v: int, n_slot: int = 4, n_tap: int = 4
    ) -> None:
        def unwritten(*shape: int) -> np.ndarray:
            return np.full((n_slot, *shape), np.nan, np.float32)

        n_channel = 2 * n_head_k * s_k + n_head_v * s_v
        self.state = np.zeros((n_slot, n_head_v, s_k, s_v), np.float32)
        self.k = unwritten(CHUNK, n_head_k, s_k)
        self.u = unwritten(CHUNK, n_head_v, s_v)
        self.decay = unwritten(CHUNK, n_head_v)
        self.conv = unwritten(n_tap - 1 + CHUNK, n_channel)
        self.conv[:, : n_tap - 1] = 0
        self.anchors = [0] * n_slot

    def clear(self, slot: int) -> None:
        """What a cache promises for a new sequence: zero state, zeros before the first token."""
        self.state[slot] = 0
        self.conv[slot] = 0
        self.anchors[slot] = 0

    def view(self, spans: tuple[Span, ...]) -> DeltaView:
        anchors = tuple(self.anchors[span.slot] for span in spans)
        return DeltaView(self.state, self.k, self.u, self.decay, self.conv, spans, anchors)

    def commit(self, spans: tuple[Span, ...]) -> None:
        """Move the anchors as the ops have moved the states."""
        for span in spans:
            self.anchors[span.slot] = anchor_after(self.anchors[span.slot], span.end)
