"""Files that appear whole or not at all.

A file is written under a hidden name in the folder it is meant for, synced to the disk and renamed;
several files are renamed when the last is written. Whatever ends the writing before (an error,
Ctrl-C, a full disk) leaves the folder as it was. What is written is not known here.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np

from junto.errors import DiskError
from junto.formats.quant_types import U8

Bytes = bytes | memoryview | U8
"""What can be written: arrays in any memory order are written row by row."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Sink:
    """The file being written; it takes bytes and counts them."""

    def __init__(self, new: "NewFile", file: FileIO) -> None:
        self._new = new
        self._file = file
        self.n_bytes = 0

    def write(self, data: Bytes) -> int:
        """Append bytes and return their number; DiskError if the disk takes no more."""
        flat = np.ascontiguousarray(data).data if isinstance(data, np.ndarray) else memoryview(data)
        left = flat.cast("B") if flat.nbytes else memoryview(b"")
        while left:
            with _told(self._new, self.n_bytes):
                n = self._file.write(left)  # fewer than given when the disk is nearly full
            self.n_bytes += n
            left = left[n:]
        return flat.nbytes


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to be written: where, its size, and what gives its bytes from first to last."""

    path: Path
    n_bytes: int
    write: Callable[[Sink], object]


def write_files(files: Sequence[NewFile]) -> None:
    """Write files of one folder, which appear together when all are complete.

    Files of the same names are replaced. DiskError if there is not enough room, before anything is
    written where that can be told, or if the folder cannot be written; nothing is left behind then,
    nor when a writer raises or Ctrl-C is pressed.
    """
    _check_targets(files)
    hidden: list[Path] = []
    try:
        for new in files:
            # Known before it exists, so that Ctrl-C finds it in the list at any moment.
            hidden.append(new.path.with_name(f".{new.path.name[:200]}.{secrets.token_hex(4)}.part"))
            _write_hidden(new, hidden[-1])
        for new, written in zip(files, hidden, strict=True):
            with _told(new):
                os.replace(written, new.path)
        for folder in {new.path.parent for new in files}:
            sync_folder(folder)
    finally:
        for path in hidden:
            path.unlink(missing_ok=True)


def _check_targets(files: Sequence[NewFile]) -> None:
    for new in files:
        if new.path.exists() and not stat.S_ISREG(new.path.stat().st_mode):
            raise DiskError(f"{new.path}: exists and is no file; choose another name")
    for folder in {new.path.parent for new in files}:
        if not folder.is_dir():
            raise DiskError(f"{folder}: no such folder; make it first")
        check_room(folder, sum(new.n_bytes for new in files if new.path.parent == folder))


def check_room(folder: Path, n_bytes: int) -> None:
    """DiskError if a folder's disk has fewer bytes free than are needed."""
    free = _n_bytes_free(folder)
    if free is not None and free < n_bytes:
        raise DiskError(
            f"{folder}: not enough room: {n_bytes:,} bytes are needed, {free:,} are free; "
            "free some, or choose another folder"
        )


def _n_bytes_free(folder: Path) -> int | None:
    """The bytes this user may still write; None where the file system does not say."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize if disk.f_blocks else None


def _write_hidden(new: NewFile, path: Path) -> None:
    with _told(new):
        file = path.open("xb", buffering=0)  # a buffer would fail once more when it is closed
    with file:
        sink = Sink(new, file)
        new.write(sink)
        assert sink.n_bytes == new.n_bytes, f"{sink.n_bytes} bytes written, {new.n_bytes} promised"
        with _told(new, sink.n_bytes):
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(new: NewFile, n_written: int = 0) -> Iterator[None]:
    """Turn an OSError into the line that says what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise DiskError(f"{new.path}: cannot be written: {error.strerror}") from None
        free = _n_bytes_free(new.path.parent) or 0
        full = "your quota is used up" if error.errno == errno.EDQUOT else "the disk is full"
        raise DiskError(
            f"{new.path}: {full}: the file needs {new.n_bytes:,} bytes, {n_written:,} "
            f"were written and {free:,} are free; free some, or choose another folder"
        ) from None


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a hidden folder to fill, which becomes `path` at the end, or nothing if that raises.

    DiskError if `path` exists and is not an empty folder.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise DiskError(f"{path}: exists already; choose another name, or remove it first")
    if not path.parent.is_dir():
        raise DiskError(f"{path.parent}: no such folder; make it first")
    hidden = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}.part")
    new = NewFile(path, 0, lambda sink: None)
    try:
        with _told(new):
            hidden.mkdir()
        yield hidden
        with _told(new):
            _sync_tree(hidden)
            os.replace(hidden, path)
            sync_folder(path.parent)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)
