"""A file of packed matrices, which every start but the first maps: its form, and its reading.

    page 0    magic, the boot in which the data was last known to be whole, place and length of the
              index, SHA-256 of the index
    data      matrices in the order they were asked for, each on a page of its own
    index     JSON: key of the source, shape, offset and checksum of each matrix

The data is not synced when it is written, so a power cut may leave holes; therefore the first start
after a reboot compares all checksums. What is not as it must
be makes the file useless, never an error: the weights are packed again.
"""

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from junto._kernels import PackedMatrix, ThreadPool, checksum
from junto.formats.quant_types import U8
from junto.formats.tensor import Tensor
from junto.ops.cpu.stack import Stack
from junto.ops.cpu.store import InMemory, Shape

MAGIC = b"junto-packed-2\0\0"
HEAD = struct.Struct("<16s64sQQ32s")  # magic, boot, index offset, index length, SHA-256
PAGE = 4096
_POPULATE_READ = 22  # MADV_POPULATE_READ of <sys/mman.h>, which the module mmap does not name
_MOST_INDEX_BYTES = 64 << 20


class Unusable(Exception):
    """Why a packed file cannot serve; the reason in a few words."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A matrix of the file."""

    shape: Shape
    offset: int
    checksum: int


def boot() -> bytes:
    """What tells one run of the operating system from the next; empty where that is not told."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()[:64]
    return b""


@dataclass(frozen=True, slots=True)
class Index:
    """What a packed file says of itself.

    key      identity of the source
    source   its path
    boot     the run of the operating system in which the data was last known to be whole
    """

    key: str
    source: Path
    entries: tuple[Entry, ...]
    boot: bytes


def read_index(path: Path) -> Index:
    """The checked index of a packed file; Unusable if it is not whole."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD.size)
            if len(head) < HEAD.size or not head.startswith(MAGIC):
                raise Unusable("it is no packed file of this version")
            _, known_boot, offset, length, digest = HEAD.unpack(head)
            if length > _MOST_INDEX_BYTES:
                raise Unusable("its index is too long")
            if offset + length > os.fstat(file.fileno()).st_size:
                raise Unusable("it is too short")
            file.seek(offset)
            raw = file.read(length)
    except (OSError, OverflowError, ValueError) as error:
        raise Unusable(f"it cannot be read: {error}") from error
    if len(raw) != length or hashlib.sha256(raw).digest() != digest:
        raise Unusable("its index is damaged")
    try:
        index: dict[str, Any] = json.loads(raw)
        entries = [
            Entry(Shape(**item["shape"]), item["offset"], item["checksum"])
            for item in index["matrices"]
        ]
        first = min((entry.offset for entry in entries), default=PAGE)
        end = max((entry.offset + entry.shape.n_bytes for entry in entries), default=PAGE)
        source = Path(index["source"])
        key = str(index["key"])
    except (KeyError, TypeError, ValueError) as error:
        raise Unusable("its index is not understood") from error
    if first < PAGE or end > offset:
        raise Unusable("its matrices do not lie inside it")
    return Index(key, source, tuple(entries), known_boot.rstrip(b"\0"))


class PackedFile:
    """Hands out matrices that lie in a mapped file."""

    is_keeping = False

    def __init__(self, path: Path, key: str, pool: ThreadPool) -> None:
        """Open and check; Unusable where it is not the packed form of the source `key`."""
        self.notes: list[str] = []
        self._memory = InMemory()
        self.backlog = self._memory.backlog
        self._path = path
        self._next = 0
        index = read_index(path)
        if index.key != key:
            raise Unusable("it was made from another file")
        self._entries = index.entries
        try:
            with path.open("rb") as file:
                self._bytes = map_bytes(file.fileno(), os.fstat(file.fileno()).st_size)
        except (OSError, ValueError) as error:
            raise Unusable(f"it cannot be mapped: {error}") from error
        if not index.boot or index.boot != boot():
            self._compare_checksums(pool)
            _remember_boot(path)

    def matrix(self, shape: Shape, experts: Tensor | Sequence[Tensor], pool: ThreadPool) -> Stack:
        """The next matrix, as it lies in the file; packed anew if the file has another there."""
        entry = self._entries[self._next] if self._next < len(self._entries) else None
        self._next += 1
        if entry is None or entry.shape != shape:
            self.notes.append(
                f"{self._path}: has no {shape.name!r}; `junto cache clear` removes it"
            )
            return self._memory.matrix(shape, experts, pool)
        return Stack(over(shape, self._part(entry)))

    def finish(self, n_threads: int) -> None:
        """Nothing is left to do, but for what the file lacks."""
        self._memory.finish(n_threads)

    def abandon(self) -> None:
        """Nothing was begun."""

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Map every page, so that no step is the first to touch one; pack what the file lacks."""
        populate(self._bytes)
        self._memory.settle(tell)

    def _part(self, entry: Entry) -> U8:
        return self._bytes[entry.offset : entry.offset + entry.shape.n_bytes]

    def _compare_checksums(self, pool: ThreadPool) -> None:
        for entry in self._entries:
            if checksum(self._part(entry), pool) != entry.checksum:
                raise Unusable(f"matrix {entry.shape.name!r} is damaged")


def map_bytes(descriptor: int, n_bytes: int) -> U8:
    """The first bytes of an open file, read-only, without a copy."""
    mapped = mmap.mmap(descriptor, n_bytes, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
    return np.frombuffer(mapped, np.uint8)


def populate(mapped: U8) -> None:
    """Have the system map the pages of `map_bytes` now. Without Linux 5.14 steps do, one by one."""
    view: Any = mapped.base  # a memoryview, by which NumPy holds the mapping
    with suppress(OSError):
        view.obj.madvise(_POPULATE_READ)


def over(shape: Shape, part: U8) -> PackedMatrix:
    """The matrix whose packed form lies in `part`."""
    return PackedMatrix(shape.type, shape.n_expert, shape.n_out, shape.n_in, part)


def _remember_boot(path: Path) -> None:
    """Note that the data was whole in this boot; if that fails, the next start compares again."""
    with suppress(OSError), path.open("r+b") as file:
        file.seek(len(MAGIC))
        file.write(boot().ljust(64, b"\0"))
