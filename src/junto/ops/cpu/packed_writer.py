"""Writes a packed file while a model takes its weights.

The file appears under its name only when all of it is written; until then it has a temporary one,
and is locked, so that others know its writer lives. The form is told in `packed_file`.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from junto._kernels import PackedMatrix, ThreadPool, checksum
from junto.formats.mapped_file import forget_pages
from junto.formats.tensor import Tensor
from junto.ops.cpu.packed_file import HEAD, MAGIC, PAGE, Entry, boot, map_bytes, over
from junto.ops.cpu.store import InMemory, Progress, Shape, unseen


class PackedWriter:
    """Packs into a file under a temporary name, which gets its own when `finish` is called.

    A disk that fills up ends the writing, not the start: the rest is packed into memory.
    """

    def __init__(
        self, path: Path, key: str, source: Path, n_most: int, progress: Progress = unseen
    ) -> None:
        """Begin a file of at most `n_most` bytes; OSError where none can be made."""
        self.notes: list[str] = []
        self.path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._descriptor = os.open(self._partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)  # a sign of life, see packed_cache
            os.ftruncate(self._descriptor, n_most)
            self._bytes = map_bytes(self._descriptor, n_most)
        except BaseException:
            self.abandon()
            raise
        self._key = key
        self._source = source
        self._entries: list[Entry] = []
        self._end = PAGE
        self._progress = progress
        self._in_memory: InMemory | None = None

    def matrix(self, shape: Shape, experts: Sequence[Tensor], pool: ThreadPool) -> PackedMatrix:
        """Pack the next matrix behind the last."""
        if self._in_memory is not None:
            return self._in_memory.matrix(shape, experts, pool)
        begin, end = self._end, self._end + shape.n_bytes
        assert end <= len(self._bytes), "the file is made for all matrices"
        part = self._bytes[begin:end]
        matrix = over(shape, part)
        for i, expert in enumerate(experts):
            rows = expert.data
            failed = matrix.write(i, rows, self._descriptor, begin, pool)
            if failed:
                return self._without_file(failed, shape, experts, pool)
            forget_pages(rows)
            self._progress(rows.nbytes)
        self._entries.append(Entry(shape, begin, checksum(part, pool)))
        self._end = -(-end // PAGE) * PAGE
        return matrix

    def _without_file(
        self, failed: int, shape: Shape, experts: Sequence[Tensor], pool: ThreadPool
    ) -> PackedMatrix:
        """Go on in memory. The matrices so far stay in the file, which has no name any more."""
        self.notes.append(f"{self.path.parent}: {os.strerror(failed)}; packed weights are not kept")
        self.abandon()
        self._in_memory = InMemory(self._progress)
        return self._in_memory.matrix(shape, experts, pool)

    def finish(self) -> None:
        """Write index and head, and give the file its name; on failure say so in `notes`."""
        if self._in_memory is not None:
            return
        try:
            self._write_index()
            os.replace(self._partial, self.path)
        except OSError as error:
            self.notes.append(f"{self.path}: {error.strerror}; packed weights are not kept")
        self.abandon()

    def _write_index(self) -> None:
        index = json.dumps(
            {
                "key": self._key,
                "source": str(self._source),
                "matrices": [asdict(entry) for entry in self._entries],
            }
        ).encode()
        os.ftruncate(self._descriptor, self._end)
        _write_all(self._descriptor, index, self._end)
        digest = hashlib.sha256(index).digest()
        head = HEAD.pack(MAGIC, boot(), self._end, len(index), digest)
        _write_all(self._descriptor, head, 0)

    def abandon(self) -> None:
        """Remove what has no name yet, and close; matrices that were handed out stay readable."""
        self._partial.unlink(missing_ok=True)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        n = os.pwrite(descriptor, view, offset)
        view, offset = view[n:], offset + n
