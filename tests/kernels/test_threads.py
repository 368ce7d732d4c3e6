"""The thread pool: every piece once, with more threads than processors, asleep or awake."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from junto import _kernels
from tests.kernels.packing import pack, stored_rows
from tests.tiny.random_weights import affine


@pytest.mark.parametrize("n_threads", [1, 2, 3, 16])
def test_any_number_of_threads_gives_the_same_bits(n_threads: int) -> None:
    pool = _kernels.ThreadPool(n_threads)
    assert pool.n_threads == n_threads
    weight = pack("Q8_0", [stored_rows("w", "Q8_0", 333, 64)], 64, pool)
    x, y = affine("x", (37, 64), 0.0, 1.0), np.empty((37, 333), np.float32)
    _kernels.linear("portable", _kernels.ThreadPool(1), weight, x, None, y)
    for awake in (False, True):
        if awake:
            pool.wake()
        for _ in range(20):
            again = np.full_like(y, np.nan)
            _kernels.linear("portable", pool, weight, x, None, again)
            np.testing.assert_array_equal(again, y)
    pool.rest()


def test_pools_of_several_callers_do_not_meet(level: str) -> None:
    """As two models of one process: each caller has a pool and buffers, the weights are shared."""
    weight = pack("Q4_K", [stored_rows("w", "Q4_K", 333, 512)], 512, _kernels.ThreadPool(1))
    x, y = affine("x", (37, 512), 0.0, 1.0), np.empty((37, 333), np.float32)
    _kernels.linear(level, _kernels.ThreadPool(1), weight, x, None, y)

    def caller(n_threads: int) -> None:
        pool, again = _kernels.ThreadPool(n_threads), np.empty_like(y)
        for i in range(20):
            again.fill(np.nan)
            (pool.wake, pool.rest)[i % 2]()
            _kernels.linear(level, pool, weight, x, None, again)
            np.testing.assert_array_equal(again, y)

    with ThreadPoolExecutor(3) as callers:
        list(callers.map(caller, (2, 3, 2)))


def test_idle_workers_sleep() -> None:
    """After `rest` the workers use no processor time; the bound leaves room for the test itself."""
    pool = _kernels.ThreadPool(8)
    pool.wake()
    pool.rest()
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.25
