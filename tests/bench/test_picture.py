"""Pictures from JSON lines; needs matplotlib (junto[bench])."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="pictures need junto[bench]")

from bench.picture import bars_of, main, report_in

RATIO = {"low": 1.5, "median": 2.0, "high": 2.5}
COMPARISON: dict[str, Any] = {
    "model": "m.gguf",
    "machine": "Made-up 9000",
    "threads": 2,
    "level": "avx2",
    "commit": "abc",
    "rival": "llama.cpp",
    "rows": [{"work": "prefill 512", "ours": RATIO, "theirs": RATIO, "ratio": RATIO}],
}
PROFILE = {"model": "m.gguf", "profiles": {"decode": {"linear": 3.0, "python": 1.0}}}


def write(path: Path, report: dict[str, Any]) -> str:
    path.write_text(f"a table\n\n{json.dumps(report)}\n\n")
    return str(path)


@pytest.mark.parametrize("n", [1, 2])
def test_comparisons_become_one_small_picture(n: int, tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}.txt", COMPARISON) for i in range(n)]
    out = tmp_path / "images" / "compare.svg"
    main([*files, "-o", str(out)])
    text = out.read_text()
    assert text.count("prefill 512") == n
    assert "Made-up 9000, 2 threads, avx2" in text
    assert len(text) < 40_000


def test_the_same_measurements_give_the_same_bytes(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", COMPARISON)
    for name in ("1.svg", "2.svg"):
        main([file, "-o", str(tmp_path / name)])
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


def test_a_profile_becomes_a_picture(tmp_path: Path) -> None:
    out = tmp_path / "profile.svg"
    main([write(tmp_path / "p.txt", PROFILE), "-o", str(out)])
    assert "3 ms, 75%" in out.read_text()


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"neither bench\.compare nor bench\.profile"):
        report_in(Path(write(tmp_path / "x.txt", {"what": 1})))
    profile = write(tmp_path / "p.txt", PROFILE)
    with pytest.raises(SystemExit, match="one profile, or any number of comparisons"):
        main([profile, profile, "-o", str(tmp_path / "x.svg")])


def test_small_ops_become_one_bar_and_python_stays() -> None:
    profile = {f"op{i}": 20.0 - i for i in range(12)} | {"python": 0.5}
    bars = bars_of(profile)
    assert bars[0] == ("other ops", 11.0 + 10.0 + 9.0)
    assert bars[1] == ("python", 0.5)
    assert bars[-1] == ("op0", 20.0)
    assert len(bars) == 11
