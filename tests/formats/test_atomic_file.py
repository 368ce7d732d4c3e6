"""A file appears whole or not at all, whatever ends the writing: real signals, real full disks."""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from junto.errors import DiskError
from junto.formats import atomic_file
from junto.formats.atomic_file import NewFile, Sink, new_folder, write_files

REPLACED = b"what stood there before"


def new(path: Path, *pieces: bytes, then: Exception | None = None) -> NewFile:
    def write(sink: Sink) -> None:
        for piece in pieces:
            sink.write(piece)
        if then is not None:
            raise then

    return NewFile(path, sum(map(len, pieces)), write)


def refusal(*files: NewFile) -> str:
    with pytest.raises(DiskError) as raised:
        write_files(files)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_is_there_when_complete_with_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_files([new(tmp_path / "a", b"one", b"", b" two")])
    assert (tmp_path / "a").read_bytes() == b"one two"
    assert names(tmp_path) == ["a", "usual"]
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_arrays_are_written_row_by_row(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    write_files([NewFile(tmp_path / "a", 12, lambda s: (s.write(array.T), s.write(array)))])
    assert list((tmp_path / "a").read_bytes()) == [0, 3, 1, 4, 2, 5, 0, 1, 2, 3, 4, 5]


def test_nothing_shows_before_the_end(tmp_path: Path) -> None:
    def write(sink: Sink) -> None:
        sink.write(b"half")
        assert not (tmp_path / "first").exists()
        assert (tmp_path / "second").read_bytes() == REPLACED

    (tmp_path / "second").write_bytes(REPLACED)
    write_files([new(tmp_path / "first", b"x"), NewFile(tmp_path / "second", 4, write)])
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"x", b"half"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), DiskError("no")])
def test_error_of_the_writer_leaves_the_folder_as_it_was(tmp_path: Path, error: Exception) -> None:
    (tmp_path / "second").write_bytes(REPLACED)
    files = [new(tmp_path / "first", b"x"), new(tmp_path / "second", b"y", then=error)]
    with pytest.raises(type(error)):
        write_files(files)
    assert names(tmp_path) == ["second"]
    assert (tmp_path / "second").read_bytes() == REPLACED


@pytest.mark.parametrize(
    ("code", "what"),
    [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "your quota is used up")],
)
def test_full_disk_tells_needed_and_free_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, what: str
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)  # where a delayed allocation shows
    monkeypatch.setattr(atomic_file, "_n_bytes_free", lambda folder: 6789)
    assert refusal(new(tmp_path / "a", b"x" * 5000)) == (
        f"{tmp_path}/a: {what}: the file needs 5,000 bytes, 5,000 were written and 6,789 are free; "
        "free some, or choose another folder"
    )
    assert names(tmp_path) == []


def test_other_faults_of_the_disk_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(source: Path, target: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "replace", broken)
    assert refusal(new(tmp_path / "a", b"x")) == (
        f"{tmp_path}/a: cannot be written: Input/output error"
    )
    assert names(tmp_path) == []


def test_too_little_room_is_told_before_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_file, "_n_bytes_free", lambda folder: 11)
    write_files([new(tmp_path / "fits", b"x" * 11)])
    unwritten = NewFile(tmp_path / "a", 6, lambda sink: pytest.fail("it was written"))
    message = refusal(unwritten, NewFile(tmp_path / "b", 6, unwritten.write))
    assert message == (
        f"{tmp_path}: not enough room: 12 bytes are needed, 11 are free; "
        "free some, or choose another folder"
    )


def test_targets_that_are_no_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert refusal(new(tmp_path / "folder", b"")).endswith(
        "folder: exists and is no file; choose another name"
    )
    assert "pipe: exists and is no file" in refusal(new(tmp_path / "pipe", b""))
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert refusal(new(tmp_path / "none" / "a", b"")) == (
        f"{tmp_path}/none: no such folder; make it first"
    )


CHILD = """
import sys, time
from pathlib import Path
from junto.errors import DiskError
from junto.formats.atomic_file import NewFile, write_files
path, n_bytes, act = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def write(sink):
    sink.write(bytes(n_bytes // 2))
    if act == "wait":
        print("half", flush=True)
        time.sleep(30)
    if act == "fill":
        try:
            (path.parent / "other").write_bytes(bytes(n_bytes))
        except OSError:
            pass
    sink.write(bytes(n_bytes - n_bytes // 2))
try:
    write_files([NewFile(path, n_bytes, write)])
except DiskError as error:
    sys.exit(str(error))
except KeyboardInterrupt:
    sys.exit("interrupted")
"""


def child(path: Path, n_bytes: int, act: str, *before: str) -> list[str]:
    return [*before, sys.executable, "-c", CHILD, str(path), str(n_bytes), act]


def test_interrupt_leaves_nothing(tmp_path: Path) -> None:
    command = child(tmp_path / "a", 9000, "wait")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # a shell may have told its children to ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        assert len(names(tmp_path)) == 1
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (1, "interrupted\n")
    assert names(tmp_path) == []
    assert time.monotonic() - start < 10


def test_limit_on_the_size_of_files_leaves_nothing(tmp_path: Path) -> None:
    shell = ("sh", "-c", 'ulimit -f 8; exec "$@"', "sh")
    done = subprocess.run(
        child(tmp_path / "a", 20_000, "go", *shell), capture_output=True, text=True, timeout=60
    )
    assert done.stderr == f"{tmp_path}/a: cannot be written: File too large\n"
    assert names(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Callable[[str, int], subprocess.CompletedProcess[str]]:
    """Runs CHILD on a file system of 256 KiB, and lists what is left on it."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    mount = f"mount -t tmpfs -o size=256k none {tmp_path} || exit 77"

    def run(act: str, n_bytes: int) -> subprocess.CompletedProcess[str]:
        script = f'{mount}; "$@"; ls -A {tmp_path}'
        command = child(tmp_path / "a", n_bytes, act, "unshare", "-rm", "sh", "-c", script, "sh")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode == 77 or "unshare" in done.stderr:
            pytest.skip("may not mount a file system here")
        return done

    return run


def test_file_larger_than_a_real_disk_is_refused(
    small_disk: Callable[[str, int], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = small_disk("go", 300_000)
    assert done.stdout == ""
    assert done.stderr == (
        f"{tmp_path}: not enough room: 300,000 bytes are needed, 262,144 are free; "
        "free some, or choose another folder\n"
    )
    assert small_disk("go", 200_000).stdout == "a\n"


def test_real_disk_that_fills_meanwhile_leaves_nothing(
    small_disk: Callable[[str, int], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = small_disk("fill", 200_000)
    assert done.stdout == "other\n"
    start = f"{tmp_path}/a: the disk is full: the file needs 200,000 bytes, 1"
    assert done.stderr.startswith(start)
    assert "were written and 0 are free; free some" in done.stderr


def test_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out") as folder:
        (folder / "config.json").write_text("{}")
        assert list((tmp_path / "out").iterdir()) == []
    assert names(tmp_path / "out") == ["config.json"]
    with pytest.raises(FileExistsError), new_folder(tmp_path / "b") as folder:
        shutil.copytree(tmp_path / "out", folder)
    assert names(tmp_path) == ["out"]


def test_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(DiskError, match=f"^{path}: exists already; "), new_folder(path):
            pytest.fail("it was entered")
    with pytest.raises(DiskError, match=r"no such folder"), new_folder(tmp_path / "x" / "y"):
        pytest.fail("it was entered")
