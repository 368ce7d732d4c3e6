"""One file from the hub into its cache, from where an earlier try stopped; then its checksum.

huggingface_hub goes on after a broken connection, but begins anew in a new process; so what has
come is kept here, beside the blobs of the cache:

    blobs/<sha256>.junto.incomplete    what has come so far
    blobs/<sha256>                     the whole file, its checksum compared with the hub's
"""

import fcntl
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from junto.errors import LibraryError

Tell = Callable[[int], None]
"""Called with the bytes of a file that are there so far."""

PARTIAL_SUFFIX = ".junto.incomplete"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a commit; sha256 if it is kept as a large file, else git_sha1 if it is told."""

    path: str
    n_bytes: int
    sha256: str | None
    git_sha1: str | None = None


def n_bytes_here(blobs: Path, file: RemoteFile) -> int:
    """Bytes of the file that need not come: another commit has it, or an earlier try left them."""
    if file.sha256 is None:
        return 0
    there = [path for path in (blobs / file.sha256, _partial(blobs, file)) if path.exists()]
    return min(there[0].stat().st_size, file.n_bytes) if there else 0


def bring(url: str, headers: dict[str, str], file: RemoteFile, blobs: Path, tell: Tell) -> None:
    """Fetch a file with a known sha256 into a folder of blobs, under its checksum as a name.

    LibraryError if what came is not what the hub promises, or another process fetches it. Errors
    of the network pass; what has come so far stays.
    """
    from huggingface_hub.file_download import http_get

    assert file.sha256 is not None, "the caller chooses files whose checksum is known"
    blobs.mkdir(parents=True, exist_ok=True)
    partial = _partial(blobs, file)
    with _opened(partial, tell) as out:
        if out.seek(0, os.SEEK_END) > file.n_bytes:
            out.truncate(0)
        http_get(
            url,
            out,
            resume_size=out.seek(0, os.SEEK_END),
            headers=headers
            | {"Accept-Encoding": "identity"},  # sizes and ranges of the file itself
            expected_size=file.n_bytes,
        )
        os.fsync(out.fileno())
        verify(partial, file)
        partial.replace(blobs / file.sha256)


def verify(path: Path, file: RemoteFile) -> None:
    """Compare a file with the checksum the hub tells; else remove it and raise LibraryError."""
    if file.sha256 is not None:
        kind, expected, found = "sha256", file.sha256, _sha256(path)
    elif file.git_sha1 is not None:
        kind, expected, found = "git checksum", file.git_sha1, _git_sha1(path)
    else:
        return
    if found != expected:
        real = path.resolve()
        path.unlink()
        real.unlink(missing_ok=True)
        raise LibraryError(
            f"{file.path}: damaged on the way: {kind} {found}, the hub tells {expected}; it is"
            " removed, pull again"
        )


class _Counted(io.FileIO):
    """A file that tells after each write where it is."""

    tell_size: Tell

    def write(self, data: object) -> int:
        left = memoryview(data).cast("B")  # type: ignore[arg-type]  # any buffer, as FileIO takes it
        n_bytes = left.nbytes
        while left:
            left = left[super().write(left) :]  # fewer than given when the disk is nearly full
        self.tell_size(self.tell())
        return n_bytes


@contextmanager
def _opened(partial: Path, tell: Tell) -> Iterator[_Counted]:
    partial.touch()
    with _Counted(partial, "r+") as out:
        out.tell_size = tell
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LibraryError(
                f"{partial}: another process is fetching it; wait until it is done"
            ) from None
        yield out


def _partial(blobs: Path, file: RemoteFile) -> Path:
    return blobs / f"{file.sha256}{PARTIAL_SUFFIX}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git_sha1(path: Path) -> str:
    """As git names a blob; these files are small."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
