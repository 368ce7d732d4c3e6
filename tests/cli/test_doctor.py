"""`junto doctor` as a whole, here and on systems that tell nothing."""

import json
from pathlib import Path

import pytest

from junto import _kernels
from junto.cli import main
from junto.measure import machine


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUNTO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("JUNTO_ISA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_sections_come_in_order_and_a_verdict_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    sections = [line for line in lines if line and not line.startswith(" ")]
    names = ["kernels", "processor", "memory", "environment", "software", "packed files", "models"]
    assert sections[:-1] == names
    assert sections[-1] == "all is well" or sections[-1].endswith(" warnings")
    assert any(line.split() == ["features", *_kernels.cpu_features()] for line in lines)


def test_json_holds_facts_by_section_and_warnings(
    elsewhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUNTO_ISA", "mmx")
    (elsewhere / "m.gguf").write_bytes(b"x")
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["facts"]["software"]["python"]
    assert report["facts"]["models"][str(elsewhere / "m.gguf")] == "0.00 GB"
    assert report["facts"]["environment"]["JUNTO_ISA"] == "mmx"
    assert {"kernels"} <= {warning["section"] for warning in report["warnings"]}


def test_models_are_those_of_this_folder_of_the_hub_and_of_our_folders(
    elsewhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, snapshot = elsewhere / "own", elsewhere / "hub/hub/models--a--b/snapshots" / ("1" * 40)
    monkeypatch.setenv("JUNTO_MODELS", str(own))
    for folder, name in ((elsewhere, "here"), (own, "far"), (snapshot, "m")):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.gguf").write_bytes(b"x" * 10**7)
    assert main(["doctor", "--json"]) == 0
    models = json.loads(capsys.readouterr().out)["facts"]["models"]
    assert models[str(elsewhere / "here.gguf")] == models["far"] == "0.01 GB"
    assert any(name.startswith("a/b") for name in models)


def test_a_system_that_tells_nothing_is_no_failure(
    elsewhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = elsewhere / "nowhere"
    monkeypatch.setattr(machine, "ROOT", nowhere)
    monkeypatch.setattr(machine.processor, "__defaults__", (nowhere,))
    monkeypatch.setattr(machine.memory, "__defaults__", (nowhere,))
    monkeypatch.setattr("subprocess.run", _no_program)
    monkeypatch.setattr("shutil.disk_usage", _no_program)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "not told by the system" in out
    assert "unknown" in out


def _no_program(*args: object, **kwargs: object) -> None:
    raise OSError("there is no such thing")


def test_a_level_that_does_not_run_is_a_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUNTO_ISA", "mmx")
    assert main(["doctor"]) == 0
    assert "  ! level: none: JUNTO_ISA is 'mmx'" in capsys.readouterr().out
