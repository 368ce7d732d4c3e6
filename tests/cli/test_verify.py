"""`junto verify` on tiny models: table, JSON, choice of layers, and an exit code that tells."""

import json

import pytest

from junto.cli import main
from tests.measure.faults import not_finite, one_value_larger, spoil
from tests.tiny.models import MIXES

NAME = "qwen35moe_q4_k"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(MIXES[NAME].write_gguf(tmp_path_factory.mktemp("models") / f"{NAME}.gguf"))


def verify(*words: str) -> int:
    return main(["verify", *words])


def test_right_kernels_give_a_table_and_zero(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(path) == 0
    out, err = capsys.readouterr()
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in out.splitlines() if "|" in line]
    assert cells[0] == ["layer", "what", "mean error", "largest", "bound", "ok"]
    assert {row[0] for row in cells[2:]} == {"input", "0", "1", "2", "head"}
    assert {row[5] for row in cells[2:]} == {"yes"}
    assert f"{NAME}.gguf on " in out.splitlines()[-1]
    assert "comparing all 3 layers" in err


@pytest.mark.parametrize("op", ["attention", "experts"])
def test_a_wrong_kernel_gives_one(
    op: str, path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, op, one_value_larger)
    assert verify(path, "-p", "5") == 1
    out = capsys.readouterr().out
    wrong = [line for line in out.splitlines() if line.endswith("|  NO |")]
    assert any(f" {op}" in line for line in wrong)
    assert "results are beyond their bounds" in out.splitlines()[-1]


def test_json_has_every_row_and_null_for_infinity(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, "swiglu", not_finite)
    assert verify(path, "-p", "5", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["model"] == f"{NAME}.gguf"
    assert report["ok"] is False
    swiglu = [row for row in report["rows"] if row["what"] == "swiglu"]
    assert [(row["part"], row["mean"], row["ok"]) for row in swiglu] == [
        (0, None, False),
        (1, None, False),
        (2, None, False),
    ]


def test_a_sample_says_what_it_leaves_out(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("junto.measure.check.sample_layers", lambda runner, blueprint: (0, 2))
    assert verify(path, "-p", "5") == 0
    out, err = capsys.readouterr()
    assert "comparing layers 0, 2 of 3 (first, middle, last, one of each kind; --all" in err
    assert "| 1 " not in out
    assert verify(path, "-p", "5", "--all") == 0
    assert "| 1 " in capsys.readouterr().out
