"""Memory of results, from the first byte of a cache line.

NumPy begins large arrays 16 bytes behind one, and then each vector of 64 bytes that a kernel loads
or stores lies in two.
"""

import numpy as np
import numpy.typing as npt

CACHE_LINE = 64
"""Bytes."""


def aligned(n_bytes: int) -> npt.NDArray[np.uint8]:
    """`n_bytes` of undefined contents: a view, whose base is what holds the memory."""
    owner = np.empty(n_bytes + CACHE_LINE, np.uint8)
    start = -owner.ctypes.data % CACHE_LINE
    return owner[start : start + n_bytes]
