"""Quantised bytes are the same on every level and with any number of threads; bad calls fail."""

import numpy as np
import pytest

from junto import _kernels
from junto.formats.quant_types import TYPES
from tests.quantize.data_kinds import IMPORTANCES, KINDS
from tests.tiny.random_weights import F32, U8

TYPE_NAMES = _kernels.quantized_types()


def run(level: str, pool: _kernels.ThreadPool, name: str, rows: F32, importance: F32 | None) -> U8:
    out = np.full((len(rows), TYPES[name].n_bytes_row(rows.shape[1])), 0xA5, np.uint8)
    assert _kernels.quantize(level, pool, name, rows, importance, out) == -1
    return out


@pytest.mark.parametrize("name", TYPE_NAMES)
def test_levels_and_threads_give_the_same_bytes(
    name: str, pools_of_threads: dict[int, _kernels.ThreadPool]
) -> None:
    for kind in ("normal", "student_t1", "sparse", "constants", "tiny", "denormals"):
        rows = KINDS[kind]()
        for importance in (make() for make in IMPORTANCES.values()):
            first, *others = (
                run(level, pools_of_threads[n], name, rows, importance)
                for level in _kernels.levels()
                for n in ((1, 3) if level == _kernels.levels()[0] else (2,))
            )
            for other in others:
                np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("name", TYPE_NAMES)
def test_first_value_that_does_not_fit_is_found(
    name: str, level: str, pools_of_threads: dict[int, _kernels.ThreadPool]
) -> None:
    rows = np.zeros((100, 1024), np.float32)
    rows[[70, 31, 90], [5, 1023, 0]] = np.nan, np.inf, -np.inf
    out = np.empty((100, TYPES[name].n_bytes_row(1024)), np.uint8)
    for pool in pools_of_threads.values():
        assert _kernels.quantize(level, pool, name, rows, None, out) == 31 * 1024 + 1023


def test_types_have_the_sizes_of_the_table(
    pools_of_threads: dict[int, _kernels.ThreadPool],
) -> None:
    for name in TYPE_NAMES:
        kind = TYPES[name]
        rows = np.ones((3, 5 * kind.n_per_block), np.float32)
        out = run("portable", pools_of_threads[1], name, rows, None)
        assert out.shape == (3, 5 * kind.n_bytes_per_block)


def test_wrong_calls_are_refused(pools_of_threads: dict[int, _kernels.ThreadPool]) -> None:
    pool, rows = pools_of_threads[1], np.zeros((3, 64), np.float32)
    good = np.empty((3, 68), np.uint8)
    with pytest.raises(ValueError, match="no type 'Q9_9'"):
        _kernels.quantize("portable", pool, "Q9_9", rows, None, good)
    with pytest.raises(ValueError, match="rows have 65 values, Q8_0 has blocks of 32"):
        _kernels.quantize("portable", pool, "Q8_0", np.zeros((3, 65), np.float32), None, good)
    with pytest.raises(ValueError, match="rows of out is 2, rows is 3"):
        _kernels.quantize("portable", pool, "Q8_0", rows, None, good[:2])
    with pytest.raises(ValueError, match="columns of out is 68, bytes of a row is 36"):
        _kernels.quantize("portable", pool, "Q4_0", rows, None, good)
    with pytest.raises(ValueError, match="importance is 63, columns is 64"):
        _kernels.quantize("portable", pool, "Q8_0", rows, np.ones(63, np.float32), good)
    with pytest.raises(ValueError, match="level 'mmx' does not run here"):
        _kernels.quantize("mmx", pool, "Q8_0", rows, None, good)
