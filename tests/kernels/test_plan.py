"""Plans repeat the calls of one pool, check them again, and keep alive what they point into."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from junto import _kernels
from junto.ops.views import F32
from tests.ops.nearness import normal

LEVEL = _kernels.levels()[0]


@pytest.fixture
def pool() -> _kernels.ThreadPool:
    return _kernels.ThreadPool(1)


@contextmanager
def recorded(pool: _kernels.ThreadPool) -> Iterator[_kernels.Plan]:
    plan = _kernels.Plan(pool)
    plan.record()
    yield plan
    plan.stop()


def rms_norm(pool: _kernels.ThreadPool, x: F32, y: F32) -> None:
    _kernels.rms_norm(LEVEL, pool, x, np.ones(x.shape[-1], np.float32), 1e-6, y)


def test_a_run_reads_and_writes_the_arrays_of_the_recorded_calls(pool: _kernels.ThreadPool) -> None:
    x, h, y = normal(1, 3, 17), np.empty((3, 17), np.float32), np.empty((3, 17), np.float32)
    with recorded(pool) as plan:
        rms_norm(pool, x, h)
        _kernels.plain_sum(pool, x, h, y)
    assert len(plan) == 2
    x *= 3
    expected = np.empty_like(h)
    rms_norm(pool, x, expected)
    plan.run()
    np.testing.assert_array_equal(y, x + expected)


def test_calls_before_after_and_on_other_pools_are_not_recorded(pool: _kernels.ThreadPool) -> None:
    x, y = normal(1, 2, 5), np.empty((2, 5), np.float32)
    rms_norm(pool, x, y)
    with recorded(pool) as plan:
        rms_norm(_kernels.ThreadPool(1), x, y)
    rms_norm(pool, x, y)
    assert len(plan) == 0


def test_a_plan_keeps_arrays_and_lets_go_of_them_when_it_goes(pool: _kernels.ThreadPool) -> None:
    gone: list[str] = []
    x, y = normal(1, 2, 5), np.empty((2, 5), np.float32)
    weakref.finalize(x, gone.append, "x")
    gc.disable()
    try:
        with recorded(pool) as plan:
            _kernels.copy(pool, x.T, y.T.copy())
            _kernels.plain_sum(pool, x, x, y)
        del x
        assert gone == []
        plan.run()
        del plan
        assert gone == ["x"]
    finally:
        gc.enable()


def test_a_plan_keeps_the_weights_of_its_calls(pool: _kernels.ThreadPool) -> None:
    weight = _kernels.PackedMatrix("F32", 1, 16, 32)
    weight.fill(0, normal(1, 16, 32).view(np.uint8), pool)
    x, y = normal(1, 2, 32), np.empty((2, 16), np.float32)
    with recorded(pool) as plan:
        _kernels.linear(LEVEL, pool, weight, x, None, y)
    expected = y.copy()
    del weight
    y[:] = 0
    plan.run()
    np.testing.assert_array_equal(y, expected)


def test_values_that_protect_memory_are_checked_in_every_run(pool: _kernels.ThreadPool) -> None:
    k_pool, v_pool = np.zeros((2, 1, 3, 64), np.float32), np.zeros((2, 1, 64, 3), np.float32)
    spans, blocks = np.array([(0, 1, 0, 0, 1)], np.int32), np.array([1, 0], np.int32)
    q, k, v, y = (normal(seed, 1, 1, 3) for seed in range(4))
    with recorded(pool) as plan:
        rows = (q, k, v, k_pool, v_pool, spans, blocks)
        _kernels.attention(LEVEL, pool, *rows, 1.0, None, None, y)
    blocks[0] = 2
    with pytest.raises(ValueError, match="attention: block 2 of a pool of 2"):
        plan.run()
    blocks[0], spans[0, 2] = 1, 64
    with pytest.raises(ValueError, match="its table of 1 blocks from block 0 does not cover"):
        plan.run()
    spans[0, 2] = 5
    plan.run()
    np.testing.assert_array_equal(k_pool[1, :, :, 5], k[0])


def test_one_plan_records_a_pool_and_none_runs_while_it_records(pool: _kernels.ThreadPool) -> None:
    with recorded(pool) as plan:
        with pytest.raises(ValueError, match="another plan records"):
            _kernels.Plan(pool).record()
        with pytest.raises(ValueError, match="it records, and cannot run"):
            plan.run()
    plan.run()
    del plan
    with recorded(pool):
        pass


@pytest.mark.parametrize(
    "of",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[:, 1::2],
        lambda x: x[::-1],
        lambda x: x.reshape(2, 3, 1, 5).swapaxes(1, 3),
        lambda x: np.broadcast_to(x[:1], (4, 5)),
    ],
)
def test_copies_equal_numpys(pool: _kernels.ThreadPool, of: Any) -> None:
    x = of(normal(1, 6, 5))
    y = np.empty(x.shape, np.float32)
    _kernels.copy(pool, x, y)
    np.testing.assert_array_equal(y, x)


def test_sums_equal_numpys_where_values_are_tiny(pool: _kernels.ThreadPool) -> None:
    tiny = np.float32(1e-40)
    a, b = np.array([tiny, 1.5, -tiny], np.float32), np.array([tiny, tiny, tiny], np.float32)
    y = np.empty(3, np.float32)
    _kernels.plain_sum(pool, a, b, y)
    np.testing.assert_array_equal(y, a + b)
    assert y[0] > 0


def test_shapes_that_do_not_fit_are_refused(pool: _kernels.ThreadPool) -> None:
    x = normal(1, 2, 5)
    with pytest.raises(ValueError, match="an axis of an array is 5, of y is 4"):
        _kernels.copy(pool, x, np.empty((2, 4), np.float32))
    with pytest.raises(ValueError, match="axes of an array is 2, of y is 1"):
        _kernels.plain_sum(pool, x, x, np.empty(10, np.float32))
    five = np.empty((1, 1, 1, 2, 3), np.float32)
    with pytest.raises(ValueError, match="copy: 5 axes, expected at most 4"):
        _kernels.copy(pool, five, five)
