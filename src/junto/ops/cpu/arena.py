"""Memory of a step under record: an array that nobody needs any more gives its place to later ones.

A plan keeps all that its calls point into. Without this it would keep every array of a step; with
it, about as many as are needed at once. Calls run in the recorded order, so what was no longer
needed then is not needed in any run.
"""

from collections import defaultdict
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from junto.ops.cpu.aligned import aligned

Empty = Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]
"""Makes an array of a shape and a type."""

Place = npt.NDArray[np.uint8]


class Lease:
    """A place in an arena, given back when nobody holds the lease."""

    __slots__ = ("_arena", "_place")

    def __init__(self, arena: "Arena", place: Place) -> None:
        self._arena = arena
        self._place = place

    def __del__(self) -> None:
        self._arena.give_back(self._place)


class Arena:
    """Places by their size, of which those that were given back are taken again.

    reuses   False has every array get fresh memory from then on
    n_bytes  of all places
    """

    def __init__(self) -> None:
        self.reuses = True
        self.n_bytes = 0
        self._free: dict[int, list[Place]] = defaultdict(list)
        self._leases: dict[int, Lease] = {}

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array, leased until `leases` has been called and its lease dropped."""
        n_bytes = prod(shape) * np.dtype(dtype).itemsize
        places = self._free[n_bytes]
        place = places.pop() if places and self.reuses else self._fresh(n_bytes)
        array = place.view(dtype).reshape(shape)
        self._leases[id(array)] = Lease(self, place)
        return array

    def _fresh(self, n_bytes: int) -> Place:
        self.n_bytes += n_bytes
        return aligned(n_bytes)

    def leases(self) -> dict[int, Lease]:
        """The leases of arrays made since the last call, by their `id`."""
        leases, self._leases = self._leases, {}
        return leases

    def give_back(self, place: Place) -> None:
        """A place may be taken again."""
        self._free[place.nbytes].append(place)
