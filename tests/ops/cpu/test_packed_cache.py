"""Packed files: the same bits as memory, found again, and never trusted further than they go."""

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from junto import _kernels
from junto.assembly import assemble
from junto.formats.tensor import Tensor
from junto.model import Model
from junto.models.loading import locate, open_file
from junto.ops.cpu import Cpu
from junto.ops.cpu.packed_cache import clear, kept, open_store
from junto.ops.cpu.packed_file import HEAD, PackedFile, boot
from junto.ops.cpu.packed_writer import PackedWriter
from junto.ops.cpu.store import InMemory, Shape, Store
from junto.ops.views import F32
from tests.tiny.models import MIXES
from tests.tiny.random_weights import affine

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
    answer = loaded(source, folder, seen).logits(IDS)
    seen[0].settle()
    return answer, seen[0]


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


def mapped_kb(file: Path) -> tuple[int, int]:
    """(size, resident) of this process's mappings of a file, in KiB as Linux tells them."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    sums = {"Size": 0, "Rss": 0}
    for line in lines:
        if line.endswith(str(file)):
            for key in ("Size", "Rss"):
                sums[key] += next(int(part.split()[1]) for part in lines if part.startswith(key))
    return sums["Size"], sums["Rss"]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="asks Linux")
def test_settling_maps_every_page_of_the_file(source: Path) -> None:
    folder = source.parent / "packed"
    logits(source, folder)
    model = loaded(source, folder, [])
    (file,) = folder.glob("*.packed")
    model.settle()
    size, resident = mapped_kb(file)
    assert size * 1024 >= file.stat().st_size
    assert resident == size


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


def begun(source: Path, folder: Path) -> PackedWriter:
    """A writer that has packed everything, and not begun to write."""
    pool = _kernels.ThreadPool(1)
    store = open_store([source], pool, folder=folder, worth_keeping=0)
    assert isinstance(store, PackedWriter)
    store.matrix(Shape("w", "F32", 1, 64, 4096), [tensor("w", (64, 4096))], pool)
    return store


def tensor(name: str, shape: tuple[int, int]) -> Tensor:
    return Tensor.from_array(name, affine(name, shape, 0.0, 1.0), "test")


def test_two_writers_at_once_leave_one_whole_file(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second to end replaces the first's file; nobody removes what a living writer writes."""
    folder = source.parent / "packed"
    holds_its_lock, may_go_on, pwrite = threading.Event(), threading.Event(), os.pwrite

    def waiting(descriptor: int, data: memoryview, offset: int) -> int:
        holds_its_lock.set()
        assert may_go_on.wait(60)
        return pwrite(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", waiting)
    slow = begun(source, folder)
    slow.finish(1)
    assert holds_its_lock.wait(60)
    os.rename(partial_of(folder), folder / ".another.partial")  # as another process names it
    slow_partial = folder / ".another.partial"
    dead = folder / ".dead.partial"
    dead.write_bytes(b"left by a process that was killed")
    monkeypatch.setattr(os, "pwrite", pwrite)
    logits(source, folder)
    assert isinstance(logits(source, folder)[1], PackedFile)
    assert slow_partial.exists()
    assert not dead.exists()
    may_go_on.set()
    slow.settle()
    assert "No such file" in slow.notes[0], "its file has another name here, so it cannot end"


def partial_of(folder: Path) -> Path:
    (partial,) = folder.glob(".*.partial")
    return partial


def test_an_interrupt_while_it_is_waited_for_leaves_nothing_behind(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent / "packed"
    pwrite = os.pwrite

    def slowly(descriptor: int, data: memoryview, offset: int) -> int:
        time.sleep(0.05)
        return pwrite(descriptor, data[:4096], offset)

    monkeypatch.setattr(os, "pwrite", slowly)
    store = begun(source, folder)
    store.finish(1)

    def interrupt(done: int, total: int) -> None:
        assert 0 <= done <= total == 64 * 4096 * 4
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.settle(interrupt)
    assert list(folder.iterdir()) == []


def test_an_interrupted_start_writes_nothing(source: Path) -> None:
    folder = source.parent / "packed"

    def interrupt(n_bytes: int) -> None:
        raise KeyboardInterrupt

    def store(pool: _kernels.ThreadPool) -> Store:
        return open_store([source], pool, folder=folder, progress=interrupt, worth_keeping=0)

    with pytest.raises(KeyboardInterrupt):
        assemble(locate(open_file(source)), Cpu(2, store=store))
    assert list(folder.iterdir()) == []


def test_a_disk_that_fills_up_costs_only_the_next_start(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent / "packed"
    expected = in_memory(source)

    def full(descriptor: int, data: memoryview, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    seen: list[Store] = []
    model = loaded(source, folder, seen)
    model.settle()
    np.testing.assert_array_equal(model.logits(IDS), expected)
    assert os.strerror(errno.ENOSPC) in seen[0].notes[0]
    assert list(folder.iterdir()) == []


def test_a_disk_with_too_little_room_is_left_alone(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent / "packed"
    usage = shutil.disk_usage(source.parent)._replace(free=10**4)
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
    model.settle()
    other.unlink()
    assert [file.source for file in clear(folder, only_stale=True)] == [other]
    assert [file.source for file in kept(folder)] == [source]
    assert len(clear(folder)) == 1
    assert list(kept(folder)) == []
    assert np.isfinite(model.logits(IDS)).all(), "a running model keeps its weights"


def test_progress_tells_every_byte_that_loading_packs_once(source: Path) -> None:
    seen: list[int] = []

    def store(pool: _kernels.ThreadPool) -> Store:
        return open_store(
            [source], pool, folder=source.parent / "p", progress=seen.append, worth_keeping=0
        )

    blueprint = locate(open_file(source))
    assemble(blueprint, Cpu(2, store=store))
    matrices = [t for t in open_file(source).tensors.values() if len(t.shape) > 1]
    later = ("exps.", "token_embd.")  # experts; of the embedding only rows are read
    packed = [t for t in matrices if not any(part in t.name for part in later)]
    assert sum(seen) == sum(t.n_bytes for t in packed)
