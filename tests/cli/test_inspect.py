"""`junto inspect`: for people and for programs."""

import json
from pathlib import Path

import pytest

from junto.cli import main
from junto.cli.exit_code import ExitCode
from tests.convert.folders import write_folder
from tests.tiny.models import TINY


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["inspect", *arguments]) == ExitCode.DONE
    return capsys.readouterr().out


def test_overview_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = TINY["qwen35moe_ratio2"].write_gguf(tmp_path / "m.gguf")
    text = told(capsys, str(path))
    for part in ("GGUF v3, 1 file", "qwen35moe (tiny)", "layers        4 of width 64"):
        assert part in text
    assert "context       1,024 tokens" in text
    assert "vocabulary    257 tokens; PlainTemplate, no chat template" in text
    assert "an estimate:" in text
    assert "| F32  |" in text
    assert "| memory, kv | n_ctx 1,024 | longest that fits |" in text


def test_overview_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = TINY["qwen35moe_ratio2"].write_gguf(tmp_path / "m.gguf")
    found = json.loads(told(capsys, str(path), "--json", "--n-ctx", "77"))
    assert found["config"]["n_expert"] == 11
    assert {planned["plan"]["n_ctx"] for planned in found["plans"]} == {77}
    assert found["path"] == str(path)
    assert found["faults"] == []


def test_tensors_of_a_layer_with_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(TINY["gpt_oss_mxfp4"], tmp_path / "m")
    assert main(["convert", str(folder), str(tmp_path / "m.gguf")]) == ExitCode.DONE
    capsys.readouterr()
    text = told(capsys, str(tmp_path / "m.gguf"), "--layer", "1", "--stats")
    head, *_ = text.splitlines()
    assert head.replace("|", " ").split()[:5] == ["tensor", "shape", "type", "bytes", "offset"]
    assert "blk.1.ffn_up_exps.weight: scales 2^" in text
    assert "blk.0." not in text
    found = json.loads(told(capsys, str(tmp_path / "m.gguf"), "--stats", "--json"))
    by_name = {row["name"]: row for row in found["tensors"]}
    assert len(by_name["blk.0.ffn_down_exps.weight"]["stats"]["blocks"]["codes"]) == 16
    assert by_name["blk.0.attn_norm.weight"]["stats"]["blocks"] is None


def test_damaged_file_is_listed_and_figures_are_of_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = TINY["llama_untied"].write_gguf(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-50_000])
    assert main(["inspect", str(path), "--stats"]) == ExitCode.DONE
    shown = capsys.readouterr()
    assert "not there" in shown.out
    assert "tensor data is missing" in shown.err


def test_layer_that_is_not_there_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = TINY["llama_tied"].write_gguf(tmp_path / "m.gguf")
    assert main(["inspect", str(path), "--layer", "7"]) == ExitCode.USAGE
    assert "m.gguf has no tensors of layer 7" in capsys.readouterr().err
