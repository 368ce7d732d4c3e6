"""Anchored state of the DeltaNet layers: M0, the list since the anchor, the convolution's tail."""

import math

import numpy as np

from junto.errors import RequestError
from junto.ops.views import CHUNK, DeltaView, Span, anchor_after


class DeltaStates:
    """State of `n_layer` DeltaNet layers for `n_slot` sequences; see `DeltaView` for the shapes.

    All layers of a slot share one anchor, which moves when a step is committed.
    """

    def __init__(
        self, n_layer: int, n_head_k: int, n_head_v: int, head_dim: int, n_tap: int, n_slot: int
    ) -> None:
        n_channel = (2 * n_head_k + n_head_v) * head_dim
        layer = (n_layer, n_slot)
        self._state = np.zeros((*layer, n_head_v, head_dim, head_dim), np.float32)
        self._k = np.zeros((*layer, CHUNK, n_head_k, head_dim), np.float32)
        self._u = np.zeros((*layer, CHUNK, n_head_v, head_dim), np.float32)
        self._decay = np.zeros((*layer, CHUNK, n_head_v), np.float32)
        self._conv = np.zeros((*layer, n_tap - 1 + CHUNK, n_channel), np.float32)
        arrays = (self._state, self._k, self._u, self._decay, self._conv)
        self._layers = list(zip(*arrays, strict=True))
        self._anchors = [0] * n_slot

    @property
    def n_bytes(self) -> int:
        """Bytes of all states and lists."""
        arrays = (self._state, self._k, self._u, self._decay, self._conv)
        return sum(array.nbytes for array in arrays)

    @property
    def n_bytes_slot(self) -> int:
        """Bytes of one slot, however many there are."""
        arrays = (self._state, self._k, self._u, self._decay, self._conv)
        return sum(a.itemsize * len(a) * math.prod(a.shape[2:]) for a in arrays)

    def anchor(self, slot: int) -> int:
        """Position of M0 of a slot."""
        return self._anchors[slot]

    def view(self, layer: int, spans: tuple[Span, ...]) -> DeltaView:
        """What the ops of the `layer`-th DeltaNet layer read and write in this step."""
        anchors = tuple(self._anchors[span.slot] for span in spans)
        return DeltaView(*self._layers[layer], spans, anchors)

    def commit(self, span: Span) -> None:
        """Move the anchor as the ops have moved the state."""
        self._anchors[span.slot] = anchor_after(self._anchors[span.slot], span.end)

    def check_truncate(self, slot: int, n_pos: int) -> None:
        """RequestError if `n_pos` lies before the anchor: M0 cannot go back."""
        anchor = self._anchors[slot]
        if n_pos < anchor:
            raise RequestError(
                f"slot {slot}: cannot truncate to {n_pos} tokens: recurrent state at {anchor} "
                f"keeps no earlier snapshot (nearest: {anchor})"
            )

    def clear(self, slot: int) -> None:
        """Begin anew: zero state, and zeros before the first token."""
        self._anchors[slot] = 0
        self._state[:, slot] = 0
        self._conv[:, slot] = 0
