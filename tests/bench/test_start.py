"""Starts are measured in processes of their own."""

import json
from pathlib import Path

import pytest

from bench import start
from tests.tiny.models import MIXES


def test_first_and_later_starts_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = MIXES["gpt_oss_mxfp4_q8_0"].write_gguf(tmp_path / "m.gguf")
    start.main([str(path), "--rounds", "1", "--prompt", "9", "--alone"])
    *table, report = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == ["junto, first", "junto, later"]
    for seconds, peak in json.loads(report)["median"].values():
        assert 0 < seconds < 60
        assert 20e6 < peak < 2e9
