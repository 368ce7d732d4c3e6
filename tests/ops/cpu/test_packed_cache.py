"""Packed files: the same bits as memory, found again, and never trusted further than they go."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from junto import _kernels
from junto.model import Model, assemble
from junto.models.loading import locate, open_file
from junto.ops.cpu import Cpu
from junto.ops.cpu.packed_cache import clear, kept, open_store
from junto.ops.cpu.packed_file import HEAD, PackedFile, boot
from junto.ops.cpu.packed_writer import PackedWriter
from junto.ops.cpu.store import InMemory, Store
from junto.ops.views import F32
from tests.tiny.models import MIXES

MIX = MIXES["gpt_oss_mxfp4_q8_0"]
IDS = [int(i) for i in MIX.model.tokens(70)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return MIX.write_gguf(tmp_path / "model.gguf")


def loaded(source: Path, folder: Path, seen: list[Store]) -> Model:
    """A model whose weights go through the store of `folder`, which is appended to `seen`."""

    def store(pool: _kernels.ThreadPool) -> Store:
        seen.append(open_store([source], pool, folder=folder, worth_keeping=0))
        return seen[-1]

    return assemble(locate(open_file(source)), Cpu(2, store=store))


def logits(source: Path, folder: Path) -> tuple[F32, Store]:
    seen: list[Store] = []
    return loaded(source, folder, seen).logits(IDS), seen[0]


def in_memory(source: Path) -> F32:
    return assemble(locate(open_file(source)), Cpu(2)).logits(IDS)


def test_the_first_start_writes_and_the_second_maps_the_same_bits(source: Path) -> None:
    folder = source.parent / "packed"
    expected = in_memory(source)
    first, writer = logits(source, folder)
    second, reader = logits(source, folder)
    assert isinstance(writer, PackedWriter)
    assert isinstance(reader, PackedFile)
    assert not writer.notes
    assert not reader.notes
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(second, expected)
    assert [file.source for file in kept(folder)] == [source]


def test_a_source_that_changed_is_packed_anew(source: Path) -> None:
    folder = source.parent / "packed"
    logits(source, folder)
    os.utime(source, ns=(0, 1))
    assert isinstance(logits(source, folder)[1], PackedWriter)
    assert isinstance(logits(source, folder)[1], PackedFile)


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def other_magic(file: Path) -> None:
    with file.open("r+b") as out:
        out.write(b"X")


def damaged_index(file: Path) -> None:
    with file.open("r+b") as out:
        out.seek(-3, os.SEEK_END)
        out.write(b"X")


def index_beyond_the_end(file: Path) -> None:
    with file.open("r+b") as out:
        fields = list(HEAD.unpack(out.read(HEAD.size)))
        fields[2] = 2**64 - 1
        out.seek(0)
        out.write(HEAD.pack(*fields))


def emptied(file: Path) -> None:
    os.truncate(file, 0)


@pytest.mark.parametrize(
    "harm", [cut_short, other_magic, damaged_index, index_beyond_the_end, emptied]
)
def test_a_file_that_is_not_whole_is_replaced(source: Path, harm: Callable[[Path], None]) -> None:
    folder = source.parent / "packed"
    expected, _ = logits(source, folder)
    (file,) = kept(folder)
    harm(file.path)
    again, store = logits(source, folder)
    assert isinstance(store, PackedWriter)
    np.testing.assert_array_equal(again, expected)
    assert isinstance(logits(source, folder)[1], PackedFile)


@pytest.mark.skipif(not boot(), reason="this system does not tell one boot from the next")
def test_the_data_is_compared_once_after_a_reboot(source: Path) -> None:
    folder = source.parent / "packed"
    expected, _ = logits(source, folder)
    (file,) = kept(folder)
    with file.path.open("r+b") as out:
        fields = list(HEAD.unpack(out.read(HEAD.size)))
        fields[1] = b"another boot"
        out.seek(0)
        out.write(HEAD.pack(*fields))
    again, store = logits(source, folder)
    assert isinstance(store, PackedFile)
    np.testing.assert_array_equal(again, expected)
    with file.path.open("r+b") as out:
        assert HEAD.unpack(out.read(HEAD.size))[1].rstrip(b"\0") == boot()
        out.seek(0)
        out.write(HEAD.pack(*fields))
        out.seek(5000)
        byte = out.read(1)
        out.seek(5000)
        out.write(bytes([byte[0] ^ 1]))
    again, store = logits(source, folder)
    assert isinstance(store, PackedWriter), "one flipped bit in the data is found"
    np.testing.assert_array_equal(again, expected)


def test_two_writers_at_once_leave_one_whole_file(source: Path) -> None:
    folder = source.parent / "packed"
    pool = _kernels.ThreadPool(1)
    other = open_store([source], pool, folder=folder, worth_keeping=0)
    assert isinstance(other, PackedWriter)
    os.rename(partial_of(folder), partial_of(folder).with_name(".another.partial"))
    logits(source, folder)
    assert isinstance(logits(source, folder)[1], PackedFile)
    assert (folder / ".another.partial").exists(), "a living writer's file is left alone"
    other.abandon()
    del other  # the mapping holds the file open too; its lock goes with the last descriptor
    os.utime(source, ns=(0, 1))
    logits(source, folder)
    assert not (folder / ".another.partial").exists(), "a dead one's is removed"


def partial_of(folder: Path) -> Path:
    (partial,) = folder.glob(".*.partial")
    return partial


def test_an_interrupted_start_leaves_nothing_behind(source: Path) -> None:
    folder = source.parent / "packed"

    def interrupt(n_bytes: int) -> None:
        raise KeyboardInterrupt

    def store(pool: _kernels.ThreadPool) -> Store:
        return open_store([source], pool, folder=folder, progress=interrupt, worth_keeping=0)

    with pytest.raises(KeyboardInterrupt):
        assemble(locate(open_file(source)), Cpu(2, store=store))
    assert list(folder.iterdir()) == []


def test_a_disk_that_fills_up_costs_only_the_next_start(source: Path) -> None:
    """What is in the file when a write fails stays readable; the rest goes into memory."""
    folder = source.parent / "packed"
    expected = in_memory(source)
    stores: list[PackedWriter] = []

    class Full(PackedWriter):
        def matrix(self, *args, **kwargs):  # type: ignore[no-untyped-def]
            if len(self._entries) == 2 and self._descriptor >= 0:
                full = os.open("/dev/full", os.O_WRONLY)
                os.dup2(full, self._descriptor)
                os.close(full)
            return super().matrix(*args, **kwargs)

    def store(pool: _kernels.ThreadPool) -> Store:
        folder.mkdir()
        stores.append(Full(folder / "x.packed", "key", source, 1 << 24))
        return stores[0]

    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    model = assemble(locate(open_file(source)), Cpu(2, store=store))
    np.testing.assert_array_equal(model.logits(IDS), expected)
    reason = os.strerror(errno.ENOSPC)
    assert any(reason in note for note in model.notes)
    assert list(folder.iterdir()) == []


def test_a_disk_with_too_little_room_is_left_alone(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent / "packed"
    usage = shutil.disk_usage(source.parent)._replace(free=10**6)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    _, store = logits(source, folder)
    assert isinstance(store, InMemory)
    assert "0.0 GB free" in store.notes[0]
    assert list(folder.iterdir()) == []


def test_a_small_source_is_not_worth_a_file(source: Path) -> None:
    folder = source.parent / "packed"
    store = open_store([source], _kernels.ThreadPool(1), folder=folder)
    assert isinstance(store, InMemory)
    assert not folder.exists()


def test_a_folder_that_cannot_be_made_is_said(source: Path) -> None:
    folder = source / "packed"
    store = open_store([source], _kernels.ThreadPool(1), folder=folder, worth_keeping=0)
    assert isinstance(store, InMemory)
    assert "not kept" in store.notes[0]


def test_clear_takes_all_or_only_what_has_no_source(source: Path, tmp_path: Path) -> None:
    folder = source.parent / "packed"
    other = tmp_path / "other.gguf"
    shutil.copy(source, other)
    logits(source, folder)
    model = loaded(other, folder, [])
    other.unlink()
    assert [file.source for file in clear(folder, only_stale=True)] == [other]
    assert [file.source for file in kept(folder)] == [source]
    assert len(clear(folder)) == 1
    assert list(kept(folder)) == []
    assert np.isfinite(model.logits(IDS)).all(), "a running model keeps its weights"


def test_progress_tells_every_byte_once(source: Path) -> None:
    seen: list[int] = []

    def store(pool: _kernels.ThreadPool) -> Store:
        return open_store(
            [source], pool, folder=source.parent / "p", progress=seen.append, worth_keeping=0
        )

    blueprint = locate(open_file(source))
    assemble(blueprint, Cpu(2, store=store))
    matrices = [t for t in open_file(source).tensors.values() if len(t.shape) > 1]
    assert sum(seen) == sum(t.n_bytes for t in matrices if "exps.bias" not in t.name)
