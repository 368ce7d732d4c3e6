"""Packs into memory, and writes a packed file from there when all experts are packed.

Both go on beside the model's work, since a disk can be far slower than packing. The file
appears under its name only when all of it is written; until then it has a temporary one, and is
locked, so that others know its writer lives. The form is told in `packed_file`.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Event

from junto._kernels import PackedMatrix, ThreadPool, checksum
from junto.errors import JuntoError
from junto.formats.tensor import Tensor
from junto.ops.cpu.background import Background
from junto.ops.cpu.packed_file import HEAD, MAGIC, PAGE, Entry, boot
from junto.ops.cpu.stack import Stack
from junto.ops.cpu.store import InMemory, Progress, Shape, unseen

PIECE = 16 << 20
"""Bytes of one write: large ones get large pages, which a later start maps."""

HUGE_PAGE = 2 << 20


class PackedWriter:
    """A store in memory that is also written to `path`; a full disk costs only the file."""

    def __init__(self, path: Path, key: str, source: Path, progress: Progress = unseen) -> None:
        """Nothing is written before `finish`."""
        self.notes: list[str] = []
        self.path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._key = key
        self._source = source
        self._memory = InMemory(progress)
        self.backlog = self._memory.backlog
        self._made: list[tuple[Shape, PackedMatrix]] = []
        self._n_threads = 1
        self._n_written = 0
        self._background: Background | None = None

    @property
    def is_keeping(self) -> bool:
        """Whether the file is still to come."""
        return self._background is not None and self._background.is_alive

    def matrix(self, shape: Shape, experts: Tensor | Sequence[Tensor], pool: ThreadPool) -> Stack:
        """Pack the next matrix, or put a stack of several off."""
        stack = self._memory.matrix(shape, experts, pool)
        self._made.append((shape, stack.matrix))
        return stack

    def finish(self, n_threads: int) -> None:
        """Begin to pack and write; a program that ends meanwhile waits, unless interrupted."""
        self._n_threads = n_threads
        self.backlog.rest()
        self._background = Background(self._keep, "junto-packed-writer", is_waited_for=True)

    def abandon(self) -> None:
        """Nothing was begun."""

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Pack what is left and wait until the file is there; `tell` hears of both together.

        An interrupt ends the writing, and nothing of it stays.
        """
        n_packed = self.backlog.n_bytes
        total = n_packed + sum(shape.n_bytes for shape, _ in self._made)

        def told(n_bytes: int) -> None:
            if tell is not None:
                tell(n_bytes, total)

        background = self._background
        try:
            self._memory.settle(lambda done, _: told(done))
            while background is not None and background.is_alive:
                told(n_packed + self._n_written)
                background.join(0.1)
        except KeyboardInterrupt:
            if background is not None:
                background.stop()
            raise

    def _keep(self, given_up: Event) -> None:
        try:
            if self.backlog.pack_while_idle(self._n_threads, lambda: not given_up.is_set()):
                self._write(given_up)
        except JuntoError as error:
            self.notes.append(f"{error}; packed weights are not kept")

    def _write(self, given_up: Event) -> None:
        descriptor = -1
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            descriptor = os.open(self._partial, flags, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # a sign of life, see packed_cache
            entries, end = self._write_matrices(descriptor, given_up)
            if not given_up.is_set():
                self._write_index(descriptor, entries, end)
                os.replace(self._partial, self.path)
        except OSError as error:
            self.notes.append(f"{self.path}: {error.strerror}; packed weights are not kept")
        finally:
            self._partial.unlink(missing_ok=True)
            if descriptor >= 0:
                os.close(descriptor)

    def _write_matrices(self, descriptor: int, given_up: Event) -> tuple[list[Entry], int]:
        entries: list[Entry] = []
        pool = ThreadPool(1)  # the model works with its own meanwhile
        end = PAGE
        for shape, matrix in self._made:
            unit = HUGE_PAGE if shape.n_bytes >= HUGE_PAGE else PAGE
            begin = -(-end // unit) * unit
            end = begin + shape.n_bytes
            data = matrix.data.data
            for start in range(0, shape.n_bytes, PIECE):
                if given_up.is_set():
                    return entries, end
                piece = data[start : start + PIECE]
                _write_all(descriptor, piece, begin + start)
                self._n_written += len(piece)
            entries.append(Entry(shape, begin, checksum(matrix.data, pool)))
        return entries, -(-end // PAGE) * PAGE

    def _write_index(self, descriptor: int, entries: Sequence[Entry], end: int) -> None:
        index = json.dumps(
            {
                "key": self._key,
                "source": str(self._source),
                "matrices": [asdict(entry) for entry in entries],
            }
        ).encode()
        _write_all(descriptor, memoryview(index), end)
        digest = hashlib.sha256(index).digest()
        head = HEAD.pack(MAGIC, boot(), end, len(index), digest)
        _write_all(descriptor, memoryview(head), 0)


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        n = os.pwrite(descriptor, data, offset)
        data, offset = data[n:], offset + n
