"""The fuzzer reports what it tried, keeps what failed, and ends with 1 then."""

import json
from pathlib import Path

import pytest

from junto.errors import FormatError
from junto.formats.gguf import GGUFFile, read_part
from tests.formats import fuzzing
from tools import fuzz


def run(monkeypatch: pytest.MonkeyPatch, keep: Path) -> int:
    monkeypatch.setattr(fuzz, "protect", lambda: None)  # would bind the process of the tests
    monkeypatch.setattr(fuzz, "TURN_SECONDS", 0.05)
    arguments = ["fuzz", "--seconds", "0.4", "--seed", "3", "--keep", str(keep)]
    monkeypatch.setattr("sys.argv", arguments)
    return fuzz.main()


def test_sound_readers_give_a_table_and_a_line_of_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path / "kept") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:5]] == ["gguf", "safetensors", "index"]
    total = json.loads(lines[-1])
    assert (total["failures"], total["seed"]) == (0, 3)
    tried = [int(line.split("|")[2].replace(",", "")) for line in lines[2:5]]
    assert total["inputs"] == sum(tried)
    assert min(tried) > 0
    assert not (tmp_path / "kept").exists()


def test_failing_input_is_kept_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[Path] = []

    def read_gguf(path: Path) -> GGUFFile:
        calls.append(path)
        if len(calls) == 12:
            raise FormatError("two\nlines")
        return read_part(path)

    monkeypatch.setattr(fuzzing, "read_gguf", read_gguf)
    assert run(monkeypatch, tmp_path / "kept") == 1
    content, reason = sorted((tmp_path / "kept").iterdir())
    assert content.name.startswith("gguf-")
    assert reason.name == f"{content.name}.txt"
    assert "a message of 9 characters" in reason.read_text()
    assert "a message of 9 characters" in capsys.readouterr().err
