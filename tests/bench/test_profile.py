"""Time by op: every op of a step is there, and all of it adds up to the step."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.profile import PYTHON, main, table
from tests.tiny.models import MIXES


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    path = MIXES["qwen35moe_q4_k"].write_gguf(tmp_path / "m.gguf")
    main([str(path), "-p", "20", "--depth", "70", "--streams", "2", "--steps", "3"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_decode_and_prefill_have_all_their_ops(report: dict[str, Any]) -> None:
    names = ["decode step, 2 streams, at 70", "the same as a plan", "prefill 20"]
    assert list(report["profiles"]) == names
    for name in names[::2]:
        profile = report["profiles"][name]
        assert profile.keys() >= {
            *("embed", "linear", "linear (head)", "experts", "attention", "gated_delta_rule"),
            *("short_conv", "rms_norm", "route", "rope", PYTHON),
        }
        assert min(profile.values()) > 0
        assert list(profile.values()) == sorted(profile.values(), reverse=True)


def test_a_planned_step_is_kernels_and_the_rest(report: dict[str, Any]) -> None:
    profile = report["profiles"]["the same as a plan"]
    assert list(profile) == ["kernels", PYTHON]
    assert min(profile.values()) > 0


def test_shares_add_up() -> None:
    text = table({"linear": 3.0, PYTHON: 1.0})
    assert text.splitlines()[2:] == [
        "| linear | 3.000 | 75.0% |",
        "| python | 1.000 | 25.0% |",
        "| all | 4.000 | |",
    ]
