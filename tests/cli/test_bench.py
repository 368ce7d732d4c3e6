"""`junto bench` on tiny models: table, JSON, and no figures where a kernel is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from junto import _kernels
from junto.cli import main
from junto.measure import limits
from tests.measure.faults import one_value_larger, spoil
from tests.tiny.models import MIXES

NAME = "gpt_oss_mxfp4_q8_0"
SHORT = ["-p", "33", "-n", "2", "--reps", "2"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(MIXES[NAME].write_gguf(tmp_path_factory.mktemp("models") / f"{NAME}.gguf"))


def bench(*words: str) -> int:
    return main(["bench", *words])


def last_line(out: str) -> dict[str, Any]:
    report = json.loads(out.splitlines()[-1])
    assert isinstance(report, dict)
    return report


def test_a_row_for_each_test_then_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(path, *SHORT, "--streams", "1,3", "--depth", "0,70") == 0
    out, err = capsys.readouterr()
    rows = [line.split("|")[1].strip() for line in out.splitlines() if line.startswith("|")]
    assert rows[2:] == [
        "prefill 33",
        "prefill 33 at 70",
        "decode 2",
        "decode 2, 3 streams",
        "decode 2 at 70",
        "decode 2, 3 streams at 70",
    ]
    report = last_line(out)
    assert report["model"] == f"{NAME}.gguf"
    assert report["level"] == _kernels.levels()[0]
    assert report["limits"] is None
    assert [result["n_stream"] for result in report["results"]] == [1, 1, 1, 3, 1, 3]
    for result in report["results"]:
        speed = result["tokens_per_s"]
        assert 0 < speed["low"] <= speed["median"] <= speed["high"]
        assert min(result["gop_per_s"], result["gb_per_s"], result["mb_per_run"]) > 0
    assert "checked " in err


def test_limits_give_shares(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "N_READ", 1 << 20)
    monkeypatch.setattr(limits, "N_RUN", 2)
    assert bench(path, *SHORT, "--limits", "--threads", "1") == 0
    out = capsys.readouterr().out
    assert "of arithmetic" in out
    assert "machine: reads " in out
    report = last_line(out)
    assert report["threads"] == 1
    assert set(report["limits"]) == {"read_gb_per_s", "dot_gop_per_s", "fma_gflop_per_s"}
    assert all(spread["median"] > 0 for spread in report["limits"].values())
    for result in report["results"]:
        assert result["of_arithmetic"] > 0
        assert result["of_memory"] > 0


def test_json_alone_is_one_line(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(path, "-p", "0", "-n", "1", "--reps", "1", "--json", "--kv", "f32") == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert last_line(out)["kv"] == "f32"


@pytest.mark.parametrize("op", ["linear", "experts", "attention"])
def test_a_wrong_kernel_gives_no_figures(
    op: str, path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, op, one_value_larger)
    assert bench(path, *SHORT) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "wrong: layer 0, " in err
    assert "a wrong kernel can't be fast" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--streams", "1,x"], "--streams is '1,x', expected whole numbers as in 1,4"),
        (["--streams", "0"], "--streams has 0, expected at least 1"),
        (["--depth", "-1"], "--depth has -1, expected at least 0"),
        (["-p", "0", "-n", "0"], "nothing to measure: -p and -n are both 0"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    words: list[str], complaint: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(path, *words) == 2
    assert complaint in capsys.readouterr().err


def test_a_depth_beyond_the_context_is_one_line(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(path, *SHORT, "--depth", "1000000") == 1
    assert "junto: error: prefill 33 at 1000000: needs 1,000,033 tokens" in capsys.readouterr().err


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench(str(tmp_path / "no.gguf")) == 1
    assert capsys.readouterr().err.startswith("junto: error: ")
