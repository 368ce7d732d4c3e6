"""A file mapped into memory, read-only, and how it is named in messages.

It knows nothing of formats. The mapping lives as long as any view of it; a file that another
program shortens meanwhile ends this one with SIGBUS, as with any mapping.
"""

import math
import mmap
import reprlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from junto.errors import FormatError
from junto.formats.quant_types import U8

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 80


@dataclass(frozen=True, slots=True, eq=False)
class MappedFile:
    """The bytes of a file, all of them addressable and none of them read yet."""

    name: str
    buffer: mmap.mmap | bytes

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return len(self.buffer)

    def view(self, start: int, shape: tuple[int, ...]) -> U8:
        """Return the bytes from `start` on as read-only U8 [*shape], without a copy."""
        n_bytes = math.prod(shape)
        if n_bytes == 0:  # numpy makes no empty array at the very end of a buffer
            return np.empty(shape, np.uint8)
        return np.frombuffer(self.buffer, np.uint8, n_bytes, start).reshape(shape)


def map_file(path: Path) -> MappedFile:
    """Map a regular file; FormatError if there is none, or it cannot be opened."""
    try:
        # Opening a pipe would wait for a writer, so its kind is asked first.
        if not stat.S_ISREG(path.stat().st_mode):
            raise FormatError(f"{path}: not a regular file")
        with path.open("rb") as file:
            empty = file.seek(0, 2) == 0  # nothing can be mapped in an empty file
            buffer = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise FormatError(f"{path}: cannot be opened: {error.strerror}") from None
    return MappedFile(path.name, buffer)


def forget_pages(view: U8) -> None:
    """Let go of the pages that a view of a mapped file holds in memory; a touch brings them back.

    Nothing happens to arrays that are not views of a mapped file.
    """
    base = _mapping_of(view)
    if base is None:
        return
    start = _place(view, base)
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    base.madvise(mmap.MADV_DONTNEED, first, start + view.nbytes - first)


def place_in_file(view: U8) -> int | None:
    """The byte of a mapped file at which a view begins; None if it is none, or empty."""
    base = _mapping_of(view)
    return None if base is None else _place(view, base)


def _mapping_of(view: U8) -> mmap.mmap | None:
    base: Any = view
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) and view.nbytes else None


def _place(view: U8, base: mmap.mmap) -> int:
    start: int = view.ctypes.data - np.frombuffer(base, np.uint8, 1).ctypes.data
    return start


def quoted(value: object) -> str:
    """Show a name or value out of a file in a message: on one line, and cut if it is long."""
    return _BRIEF.repr(value)
