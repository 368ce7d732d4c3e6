"""The folder of packed files: which one serves a model, what it holds, how it is emptied.

A packed file is found by its source's identity (path, sizes, times of change, beginnings and ends),
so a file that changed is packed again. Nothing here is needed for a right answer: without the
folder, weights are packed into memory at each start.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from junto._kernels import ThreadPool
from junto.ops.cpu.packed_file import MAGIC, PackedFile, Unusable, read_index
from junto.ops.cpu.packed_writer import PackedWriter
from junto.ops.cpu.store import InMemory, Progress, Store, unseen

WORTH_KEEPING = 512 << 20
"""Smaller sources are packed in less time than the question is worth."""

_SAMPLE = 64 << 10
_SUFFIX = ".packed"


def packed_folder() -> Path:
    """Where packed files are kept: $JUNTO_CACHE, $XDG_CACHE_HOME/junto or ~/.cache/junto."""
    if chosen := os.environ.get("JUNTO_CACHE"):
        return Path(chosen) / "packed"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "junto" / "packed"


def source_key(files: Sequence[Path]) -> str:
    """What identifies a source; it changes with any file's path, size, time or sampled bytes."""
    digest = hashlib.sha256(MAGIC)
    for path in sorted(files):
        status = path.stat()
        digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLE))
            file.seek(max(0, status.st_size - _SAMPLE))
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()


def open_store(
    files: Sequence[Path],
    pool: ThreadPool,
    *,
    folder: Path | None = None,
    progress: Progress = unseen,
    worth_keeping: int = WORTH_KEEPING,
) -> Store:
    """The packed file of a source, or one to be written if that can be done, or memory.

    files    all files of the source; the first gives the packed file its name
    folder   `packed_folder()` unless given
    """
    size = sum(path.stat().st_size for path in files)
    if size < worth_keeping:
        return InMemory(progress)
    folder = folder or packed_folder()
    key = source_key(files)
    path = folder / f"{files[0].stem[:80]}-{key[:16]}{_SUFFIX}"
    if path.exists():
        with suppress(Unusable):
            return PackedFile(path, key, pool)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        free = shutil.disk_usage(folder).free
        if free < 2 * size:
            return _in_memory(progress, f"{free / 1e9:.1f} GB free, {2 * size / 1e9:.1f} needed")
        return PackedWriter(path, key, files[0].resolve(), progress)
    except OSError as error:
        return _in_memory(progress, f"{folder}: {error.strerror}")


def _in_memory(progress: Progress, reason: str) -> InMemory:
    store = InMemory(progress)
    store.notes.append(f"packed weights are not kept for the next start: {reason}")
    return store


def _sweep(folder: Path) -> None:
    """Remove what writers left behind that live no more; a living one holds a lock on its file."""
    for partial in folder.glob(".*.partial"):
        with suppress(OSError), partial.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            partial.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Kept:
    """A packed file of the folder; `source` is None where its index cannot be read."""

    path: Path
    n_bytes: int
    source: Path | None

    @property
    def is_stale(self) -> bool:
        """Whether the source is gone, or the file useless."""
        return self.source is None or not self.source.exists()


def kept(folder: Path | None = None) -> Iterator[Kept]:
    """The packed files, in the order of their names."""
    for path in sorted((folder or packed_folder()).glob(f"*{_SUFFIX}")):
        with suppress(FileNotFoundError):
            n_bytes = path.stat().st_blocks * 512
            try:
                yield Kept(path, n_bytes, read_index(path).source)
            except Unusable:
                yield Kept(path, n_bytes, None)


def clear(folder: Path | None = None, *, only_stale: bool = False) -> list[Kept]:
    """Remove packed files, or only those whose source is gone; running models keep theirs."""
    removed = [file for file in kept(folder) if file.is_stale or not only_stale]
    for file in removed:
        file.path.unlink(missing_ok=True)
    return removed
