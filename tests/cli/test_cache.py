"""`junto cache` shows and clears the folder of packed files."""

from pathlib import Path

import pytest

from junto import _kernels
from junto.cli import main
from junto.ops.cpu.packed_cache import open_store, packed_folder
from junto.ops.cpu.packed_writer import PackedWriter


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUNTO_CACHE", str(tmp_path))
    return tmp_path


def keep(source: Path) -> None:
    source.write_bytes(b"x" * 1000)
    store = open_store([source], _kernels.ThreadPool(1), worth_keeping=0)
    assert isinstance(store, PackedWriter)
    store.finish(1)
    store.settle()


def test_an_empty_folder_is_listed_and_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list"]) == 0
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"   0.00 GB  in 0 files in {packed_folder()}",
        "removed 0 files, 0.00 GB",
    ]


def test_files_are_listed_with_their_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path / "here.gguf")
    keep(tmp_path / "gone.gguf")
    (tmp_path / "gone.gguf").unlink()
    (packed_folder() / "odd.packed").write_bytes(b"what")
    assert main(["cache", "list"]) == 0
    lines = [line.split("GB  ")[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        f"{tmp_path}/gone.gguf (gone)",
        f"{tmp_path}/here.gguf",
        "(not readable)",
        f"in 3 files in {packed_folder()}",
    ]


def test_stale_files_can_be_cleared_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path / "here.gguf")
    keep(tmp_path / "gone.gguf")
    (tmp_path / "gone.gguf").unlink()
    assert main(["cache", "clear", "--stale"]) == 0
    assert [path.name.split("-")[0] for path in packed_folder().glob("*.packed")] == ["here"]
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.count("removed 1 files") == 2
