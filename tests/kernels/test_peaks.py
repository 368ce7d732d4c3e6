"""The machine's limits: rates that can be, for every level, and arguments that cannot."""

import pytest

from junto import _kernels

POOL = _kernels.ThreadPool(2)
READ = 1 << 20


@pytest.mark.parametrize("level", _kernels.levels())
def test_every_level_gives_one_rate_a_run(level: str) -> None:
    runs = (
        _kernels.peak_read(level, POOL, READ, 3),
        _kernels.peak_dot(level, POOL, 3),
        _kernels.peak_fma(level, POOL, 3),
    )
    for rates in runs:
        assert len(rates) == 3
        assert all(1e6 < rate < 1e15 for rate in rates)


def test_hostile_arguments_are_refused() -> None:
    level = _kernels.levels()[-1]
    with pytest.raises(ValueError, match="0 runs, expected 1 to 10000"):
        _kernels.peak_dot(level, POOL, 0)
    with pytest.raises(ValueError, match="100 bytes, expected 256 KiB"):
        _kernels.peak_read(level, POOL, 100, 1)
    with pytest.raises(ValueError, match="expected 256 KiB to 256 GiB"):
        _kernels.peak_read(level, POOL, 1 << 62, 1)
    with pytest.raises(ValueError, match="level 'mmx' does not run here"):
        _kernels.peak_fma("mmx", POOL, 1)


def test_levels_that_run_have_what_they_need() -> None:
    needs = dict(_kernels.level_needs())
    features = set(_kernels.cpu_features())
    running = [name for name, needed in needs.items() if features.issuperset(needed)]
    assert running == _kernels.levels()
    assert needs["portable"] == []
