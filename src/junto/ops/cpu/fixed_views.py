"""Views of a plan: the rows of their spans lie in arrays that each run fills anew.

Layers that remember alike have the same rows, and their storage moves together; they share one
group here.
"""

import operator
from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt

from junto.ops.cpu.spans import FixedDelta, FixedKV, KVRows, delta_rows, kv_rows
from junto.ops.views import DeltaView, KVView

LEAST_BLOCKS = 16
"""Room for block numbers, which doubles."""


class KVGroup:
    """Attention layers with one set of rows.

    layer, view   one of them, as it was in the recorded step
    """

    def __init__(self, layer: int, view: KVView) -> None:
        self.layer = layer
        self._view = view
        rows = kv_rows(view)
        self._rows = KVRows(
            rows.spans, _with_room(rows.blocks), rows.aged_spans, _with_room(rows.aged_blocks)
        )

    def fixed(self, view: KVView) -> FixedKV:
        """The view of a layer of the group, with the rows of the group."""
        return FixedKV(view.k, view.v, view.spans, view.tables, view.aged, rows=self._rows)

    def has_moved(self, view: KVView) -> bool:
        """Whether the storage is another than that of the recorded step."""
        return not _same_arrays(_kv_arrays(self._view), _kv_arrays(view))

    def write(self, view: KVView) -> bool:
        """Take the rows of a step; False if they do not fit."""
        for ours, given in zip(self._rows, kv_rows(view), strict=True):
            if len(given) > len(ours):
                return False
            ours[: len(given)] = given
            ours[len(given) :] = 0
        return True


class DeltaGroup:
    """DeltaNet layers with one set of rows; as `KVGroup`."""

    def __init__(self, layer: int, view: DeltaView) -> None:
        self.layer = layer
        self._view = view
        self._rows = delta_rows(view)

    def fixed(self, view: DeltaView) -> FixedDelta:
        """The view of a layer of the group, with the rows of the group."""
        inherited = (getattr(view, field.name) for field in fields(DeltaView))
        return FixedDelta(*inherited, rows=self._rows)

    def has_moved(self, view: DeltaView) -> bool:
        """Whether the storage is another than that of the recorded step."""
        return not _same_arrays(_delta_arrays(self._view), _delta_arrays(view))

    def write(self, view: DeltaView) -> bool:
        """Take the rows of a step, which always fit."""
        self._rows[:] = delta_rows(view)
        return True


def _with_room(blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    n = LEAST_BLOCKS
    while n < len(blocks):
        n *= 2
    room = np.zeros(n, np.int32)
    room[: len(blocks)] = blocks
    return room


def _kv_arrays(view: KVView) -> list[npt.NDArray[Any]]:
    aged = view.aged
    codes = [aged.k.codes, aged.k.scales, aged.v.codes, aged.v.scales] if aged else []
    return [view.k, view.v, *codes]


def _delta_arrays(view: DeltaView) -> list[npt.NDArray[Any]]:
    return [view.state, view.k, view.u, view.decay, view.conv]


def _same_arrays(ours: list[npt.NDArray[Any]], given: list[npt.NDArray[Any]]) -> bool:
    return len(ours) == len(given) and all(map(operator.is_, ours, given))
