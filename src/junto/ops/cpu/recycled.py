"""Memory of results, taken again: writing a fresh page first costs more than most sums it holds.

A step of a long prompt makes some hundred megabytes of results, each needed for a moment. An array
that nobody holds any more gives its place to a later one; what no step has wanted for a while goes
back to the system.
"""

import sys
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from junto.ops.cpu.aligned import aligned

N_BYTES_LEAST = 1 << 16
"""Smaller arrays come from NumPy, whose allocator takes their memory again by itself."""

N_STEP_KEPT = 8
"""Steps for which a place that nobody wants is kept."""


@dataclass(slots=True, eq=False)
class Place:
    """Memory, and the step that took it last."""

    memory: npt.NDArray[np.uint8]
    last_step: int

    @property
    def is_free(self) -> bool:
        """Whether no array lies in it: `getrefcount` counts ours, and its own.

        NumPy has every view, and a view of that, hold the array that owns the memory.
        """
        return sys.getrefcount(self.memory.base) == 2


class Recycler:
    """Makes arrays in memory that earlier ones have left."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._step = 0

    @property
    def n_bytes(self) -> int:
        """Bytes of all places, free or not."""
        return sum(place.memory.nbytes for place in self._places)

    def begin_step(self) -> None:
        """Forget places that no step has wanted for a while; arrays that lie there stay valid."""
        self._step += 1
        oldest = self._step - N_STEP_KEPT
        self._places = [place for place in self._places if place.last_step >= oldest]

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array with undefined contents."""
        n_bytes = prod(shape) * np.dtype(dtype).itemsize
        if n_bytes < N_BYTES_LEAST:
            return np.empty(shape, dtype)
        return self._take(n_bytes)[:n_bytes].view(dtype).reshape(shape)

    def _take(self, n_bytes: int) -> npt.NDArray[np.uint8]:
        # At most twice the size: a long prompt's places serve its last, shorter step. Of equals the
        # one that was taken last: it is the likeliest to be in cache.
        fitting = [p for p in reversed(self._places) if n_bytes <= p.memory.nbytes <= 2 * n_bytes]
        for place in sorted(fitting, key=lambda place: place.memory.nbytes):
            if place.is_free:
                place.last_step = self._step
                self._places.remove(place)
                self._places.append(place)
                return place.memory
        self._places.append(Place(aligned(n_bytes), self._step))
        return self._places[-1].memory
