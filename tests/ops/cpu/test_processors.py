"""How many threads a process gets, of made-up machines."""

import os
from pathlib import Path

import pytest

from junto.ops.cpu.processors import default_threads, physical_cores, usable_processors


def machine(root: Path, places: list[tuple[int, int]]) -> Path:
    """A root whose logical processors have these packages and cores."""
    for number, (package, core) in enumerate(places):
        folder = root / f"sys/devices/system/cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{package}\n")
        (folder / "core_id").write_text(f"{core}\n")
    return root


def quota(path: Path, text: str) -> Path:
    """A control group's file."""
    path.write_text(text)
    return path


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    chosen = {0, 1, 2, 3, 5}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: chosen)
    return chosen


def test_two_processors_of_a_core_get_one_thread(tmp_path: Path, allowed: set[int]) -> None:
    """Cores 0 and 1 of both packages; 2 and 3 are one core, 0 and 5 are of different packages."""
    root = machine(tmp_path, [(0, 0), (0, 1), (1, 1), (1, 1), (0, 0), (1, 0)])
    assert physical_cores(allowed, root) == 4
    assert default_threads(root, tmp_path / "no quota") == 4
    assert usable_processors(tmp_path / "no quota") == 5


@pytest.mark.parametrize(
    ("text", "expected"), [("250000 100000", 3), ("max 100000", 4), ("1000 100000", 1)]
)
def test_a_quota_allows_fewer(tmp_path: Path, allowed: set[int], text: str, expected: int) -> None:
    root = machine(tmp_path, [(0, 0), (0, 1), (1, 1), (1, 1), (0, 0), (1, 0)])
    assert default_threads(root, quota(tmp_path / "cpu.max", text)) == expected


def test_where_cores_are_not_told_each_processor_counts(tmp_path: Path, allowed: set[int]) -> None:
    root = machine(tmp_path, [(0, 0), (0, 0)])
    assert physical_cores(allowed, root) is None
    assert default_threads(root, tmp_path / "no quota") == 5
