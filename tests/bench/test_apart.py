"""Engines in processes of their own; the rival is not there, so ours stands for both."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import apart
from tests.tiny.models import MIXES


def test_one_engine_tells_the_speed_of_each_work(tmp_path: Path) -> None:
    path = MIXES["gpt_oss_mxfp4_q8_0"].write_gguf(tmp_path / "m.gguf")
    words = [str(path), "--prompt", "9", "--streams", "1,2", "--depth", "5", "--vocab", "60"]
    command = [sys.executable, "-m", "bench.apart", *words, "--only", "junto"]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    speeds = json.loads(run.stdout)
    assert len(speeds) == 3
    assert min(speeds) > 0


def test_ratios_are_of_the_same_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = iter([[30.0, 8.0], [10.0, 4.0], [45.0, 6.0], [15.0, 6.0]])
    monkeypatch.setattr(apart, "_of_process", lambda name, words: next(told))
    apart.main(["m.gguf", "--rounds", "2", "--streams", "1"])
    *table, report = capsys.readouterr().out.strip().splitlines()
    assert table[2] == "| prefill 512 | 37.50 | 12.50 | 3.00 (3.00-3.00) |"
    assert table[3] == "| decode, 1 stream, at 32 | 7.00 | 5.00 | 1.50 (1.25-1.75) |"
    assert len(json.loads(report)["rows"]) == 2
