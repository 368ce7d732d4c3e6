"""Test data: where it is looked for, and what is said when it is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import data_dir
from tests.conftest import missing_data


def test_big_data_is_found_in_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only-here.bin").write_bytes(b"x")
    monkeypatch.setenv("JUNTO_TEST_DATA", str(tmp_path))
    assert data_dir.find("only-here.bin") == tmp_path / "only-here.bin"


def test_files_of_the_repository_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("repository/tests/data", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "both.bin").write_bytes(b"x")
    monkeypatch.setattr(data_dir, "REPOSITORY", tmp_path / "repository")
    monkeypatch.setenv("JUNTO_TEST_DATA", str(tmp_path / "elsewhere"))
    assert data_dir.find("both.bin") == tmp_path / "repository/tests/data/both.bin"


def test_shared_data_beside_the_clone_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared/data").mkdir(parents=True)
    (tmp_path / "shared/data/big.bin").write_bytes(b"x")
    monkeypatch.setattr(data_dir, "REPOSITORY", tmp_path / "clone")
    monkeypatch.delenv("JUNTO_TEST_DATA", raising=False)
    assert data_dir.find("big.bin") == tmp_path / "shared/data/big.bin"


def test_missing_data_skips_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUNTO_TEST_DATA", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=r"needs none/such\.bin \(JUNTO_TEST_DATA\)"):
        data_dir.find("none/such.bin")


def test_skips_are_counted_by_missing_file() -> None:
    reasons = [
        "Skipped: needs a.gguf (JUNTO_TEST_DATA)",
        "Skipped: needs b.bin (JUNTO_TEST_DATA)",
        "Skipped: needs a.gguf (JUNTO_TEST_DATA)",
        "Skipped: no GPU",
    ]
    assert missing_data(reasons) == {"a.gguf": 2, "b.bin": 1}


def test_end_of_run_names_what_is_missing_from_tests_and_modules(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    body = "from tests.data_dir import find\ndef test_one(): find('none/such.bin')\n"
    (tmp_path / "test_in_function.py").write_text(body)
    module = "from tests.data_dir import find\nPATH = find('other.bin')\n"
    (tmp_path / "test_whole_module.py").write_text(module)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", "/dev/null", f"--confcutdir={tmp_path}"],
        cwd=data_dir.REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 tests skipped for lack of data" in run.stdout, run.stdout + run.stderr
    assert "    1  none/such.bin\n" in run.stdout
    assert "    1  other.bin\n" in run.stdout
