"""The comparison's arithmetic, with our engine on both sides."""

from pathlib import Path

import pytest

from bench.compare import n_ctx, parsed, row, shown, workloads
from bench.engine import Ours
from bench.workload import Decode, Prefill, alternate
from tests.tiny.models import MIXES


def test_all_depths_and_streams_are_measured_after_the_prompt() -> None:
    options = parsed(["m.gguf", "--streams", "1,3", "--depth", "32,100", "--prompt", "40"])
    works = workloads(options, list(range(200)))
    assert [work.name for work in works] == [
        "prefill 40",
        "decode, 1 stream, at 32",
        "decode, 3 streams, at 32",
        "decode, 1 stream, at 100",
        "decode, 3 streams, at 100",
    ]
    assert workloads(parsed(["m.gguf", "--prompt", "0"]), [1])[0].name.startswith("decode")


def test_at_least_fifteen_pairs_unless_told_otherwise() -> None:
    assert parsed(["m.gguf"]).pairs == 15


def test_the_context_has_room_for_every_run() -> None:
    options = parsed(["m.gguf", "--depth", "32,8192", "--pairs", "20", "--steps", "16"])
    assert n_ctx(options) >= 8192 + 2 + 20 * 16
    assert n_ctx(options) % 256 == 0
    assert n_ctx(parsed(["m.gguf", "--prompt", "4000"])) >= 4000


def test_ratios_are_taken_pair_by_pair() -> None:
    """Both slow down by half in the second pair; their ratio stays."""
    figures = row(Prefill([1]), [(30.0, 10.0), (15.0, 5.0), (40.0, 10.0)])
    assert figures["ratio"] == {"low": 3.0, "median": 3.0, "high": 3.5}
    assert figures["ours"]["median"] == 30.0
    assert shown(figures) == "| prefill 1 | 30.00 | 10.00 | 3.00 (3.00-3.50) |"


def test_our_engine_runs_the_work_on_both_sides(tmp_path: Path) -> None:
    path = MIXES["gpt_oss_mxfp4_q8_0"].write_gguf(tmp_path / "m.gguf")
    engines = [Ours(path, 1, 3) for _ in range(2)]
    for work in (Prefill(list(range(70))), Decode(list(range(50)), 3, 20, 2)):
        pairs = alternate(engines[0], engines[1], work, 2)
        assert min(speed for pair in pairs for speed in pair) > 0


def test_a_wrong_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["m.gguf", "--streams", "one"])
    assert "invalid numbers value: 'one'" in capsys.readouterr().err
