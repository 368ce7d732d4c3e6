"""The attention kernel: near a float64 softmax, and the same bits however the work is shared.

Tolerance 3e-6 of the largest result: float32 scores of a few units, sums over at most 1,300
positions, and an exponential within 2 units in the last place.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from junto import _kernels
from junto.ops.views import F32
from tests.kernels.paged_sequence import (
    Kernel,
    Pools,
    Rows,
    in_steps,
    random_rows,
    softmax_attention,
)
from tests.ops.nearness import assert_near

ROUNDINGS = 3e-6
SHAPES = [
    pytest.param(6, 2, 5, id="head_dim below a vector"),
    pytest.param(3, 1, 16, id="one key head"),
    pytest.param(5, 5, 17, id="no groups"),
    pytest.param(16, 2, 64, id="groups of eight"),
    pytest.param(4, 2, 80, id="five vectors"),
    pytest.param(2, 1, 256, id="wide heads"),
    pytest.param(130, 1, 3, id="a group above a tile"),
]


@pytest.fixture
def kernel(level: str, pools_of_threads: dict[int, _kernels.ThreadPool]) -> Kernel:
    return Kernel(level, pools_of_threads[2])


def sinks_of(n_head: int) -> F32:
    return np.random.default_rng(9).uniform(-3, 4, n_head).astype(np.float32)


@pytest.mark.parametrize(("n_head", "n_head_kv", "head_dim"), SHAPES)
@pytest.mark.parametrize("n_tok", [1, 63, 64, 65, 129])
def test_prefill_is_a_softmax(
    kernel: Kernel, n_head: int, n_head_kv: int, head_dim: int, n_tok: int
) -> None:
    x = random_rows(n_tok, n_tok, n_head, n_head_kv, head_dim)
    pools = Pools(n_head_kv, head_dim, n_tok)
    assert_near(kernel.step(pools, (0, 0, x))[0], softmax_attention(x), ROUNDINGS)


@pytest.mark.parametrize("window", [None, 1, 2, 40, 64, 65, 128])
@pytest.mark.parametrize("with_sinks", [False, True])
def test_window_and_sinks(kernel: Kernel, window: int | None, with_sinks: bool) -> None:
    x = random_rows(1, 200, 6, 2, 20)
    sinks = sinks_of(6) if with_sinks else None
    y = replace(kernel, window=window, sinks=sinks).step(Pools(2, 20, 200), (0, 0, x))[0]
    assert_near(y, softmax_attention(x, window, sinks), ROUNDINGS)


@pytest.mark.parametrize("window", [None, 128])
def test_float16_pools_hold_rounded_keys_and_values(kernel: Kernel, window: int | None) -> None:
    x = random_rows(2, 150, 6, 2, 20)
    rounded = Rows(x.q, *(a.astype(np.float16).astype(np.float32) for a in (x.k, x.v)))
    pools = Pools(2, 20, 150, stored=np.float16)
    y = replace(kernel, window=window).step(pools, (0, 0, x))[0]
    assert_near(y, softmax_attention(rounded, window), ROUNDINGS)
    kept = pools.k[pools.tables[0][2], :, :, 149 - 128]
    np.testing.assert_array_equal(kept, x.k[149].astype(np.float16))


@pytest.mark.parametrize("stored", [np.float32, np.float16])
@pytest.mark.parametrize("window", [None, 1, 100, 128])
@pytest.mark.parametrize("cuts", [[64], [1, 2, 3], [63, 65, 131], list(range(1, 190))])
def test_any_cut_gives_the_same_bits(
    kernel: Kernel, stored: type, window: int | None, cuts: list[int]
) -> None:
    x = random_rows(3, 190, 6, 2, 20)
    kernel = replace(kernel, window=window, sinks=sinks_of(6))
    whole = in_steps(kernel, Pools(2, 20, 190, stored=stored), x, [])
    cut = in_steps(kernel, Pools(2, 20, 190, stored=stored), x, cuts)
    np.testing.assert_array_equal(cut.view(np.uint32), whole.view(np.uint32))


@pytest.mark.parametrize("window", [None, 1100])
def test_a_long_past_split_over_threads_gives_the_same_bits(
    kernel: Kernel, pools_of_threads: dict[int, _kernels.ThreadPool], window: int | None
) -> None:
    """Decode splits a past of more than 1,024 positions; prefill does not."""
    n_pos = 1300
    x = random_rows(4, n_pos, 6, 2, 20)
    kernel = replace(kernel, window=window, sinks=sinks_of(6))
    whole = in_steps(kernel, Pools(2, 20, n_pos), x, [])
    assert_near(whole[-1:], softmax_attention(x, window, kernel.sinks)[-1:], ROUNDINGS)
    for threads in pools_of_threads.values():
        decode = replace(kernel, pool=threads)
        cut = in_steps(decode, Pools(2, 20, n_pos), x, [1020, *range(1295, 1300)])
        np.testing.assert_array_equal(cut.view(np.uint32), whole.view(np.uint32))


@pytest.mark.parametrize("window", [None, 50])
def test_neighbours_and_threads_change_no_bit(
    kernel: Kernel, pools_of_threads: dict[int, _kernels.ThreadPool], window: int | None
) -> None:
    kernel = replace(kernel, window=window)
    xs = [random_rows(10 + i, n, 9, 3, 24) for i, n in enumerate((130, 66, 71))]
    alone = [in_steps(kernel, Pools(3, 24, 130), x, [60]) for x in xs]
    for threads in pools_of_threads.values():
        together = replace(kernel, pool=threads)
        pools = Pools(3, 24, 130, n_slot=3)
        first = together.step(pools, *[(i, 0, x[:60]) for i, x in enumerate(xs)])
        rest = together.step(pools, *[(i, 60, x[60:]) for i, x in enumerate(xs)])
        for i, y in enumerate(alone):
            both = np.concatenate([first[i], rest[i]])
            np.testing.assert_array_equal(both.view(np.uint32), y.view(np.uint32))


def test_later_values_that_are_not_numbers_do_not_reach_earlier_queries(kernel: Kernel) -> None:
    x = random_rows(5, 70, 6, 2, 20)
    spoilt = Rows(x.q, x.k.copy(), x.v.copy())
    spoilt.v[66:] = np.nan
    spoilt.k[68:] = np.inf
    y = kernel.step(Pools(2, 20, 70), (0, 0, spoilt))[0]
    clean = kernel.step(Pools(2, 20, 70), (0, 0, x))[0]
    np.testing.assert_array_equal(y[:66], clean[:66])


def test_a_table_may_begin_where_the_window_does(kernel: Kernel) -> None:
    x = random_rows(6, 201, 6, 2, 20)
    kernel = replace(kernel, window=70)
    pools = Pools(2, 20, 201)
    whole = kernel.step(pools, (0, 0, x))[0]
    y = np.empty_like(x.q[200:])
    last = x[slice(200, 201)]
    spans = np.array([(0, 1, 200, 2, 2)], np.int32)
    _kernels.attention(
        *(kernel.level, kernel.pool, last.q, last.k, last.v, pools.k, pools.v, spans),
        *(pools.tables[0][2:], 20**-0.5, 70, None, y),
    )
    np.testing.assert_array_equal(y, whole[200:])


REFUSALS = [
    ("spans", [(0, 4, 0, 0, 1)], "rows of the spans is 4, rows of q is 5"),
    ("spans", [(1, 5, 0, 0, 1)], "first row of a span is 1"),
    ("spans", [(0, 0, 0, 0, 1)], "expected at least 1 row"),
    ("spans", [(0, 5, -1, 0, 1)], "expected at least 1 row and position 0"),
    ("spans", [(0, 5, 60, 0, 1)], "does not cover"),
    ("spans", [(0, 5, 64, 1, 1)], "does not cover"),
    ("spans", [(0, 5, 0, -1, 1)], "does not cover"),
    ("spans", [(0, 5, 0, 0, 9)], "tables of 9 blocks, got 1"),
    ("spans", [(0, 5, 0, 0, -1)], "tables of -1 blocks"),
    ("blocks", [4], "block 4 of a pool of 4"),
    ("blocks", [-1], "block -1 of a pool of 4"),
    ("k", (5, 4, 20), "6 heads of 20 do not group by 4"),
    ("k", (4, 2, 20), "rows of k is 4, rows of q is 5"),
    ("k", (5, 2, 21), "head_dim of k is 21"),
    ("k_pool", (4, 2, 64, 20), "axis 2 of k_pool is 64"),
    ("v_pool", (4, 2, 20, 64), "axis 2 of v_pool is 20"),
    ("v_pool", (3, 2, 64, 20), "blocks of v_pool is 3"),
    ("sinks", (5,), "sinks is 5, heads of q is 6"),
    ("y", (5, 6, 21), "an axis of y is 21, of q is 20"),
    ("window", 0, "window is 0"),
    ("level", "avx9", "does not run here"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSALS)
def test_arguments_that_do_not_fit_are_refused(
    kernel: Kernel, name: str, value: object, message: str
) -> None:
    shapes: dict[str, tuple[int, ...]] = {"q": (5, 6, 20), "k": (5, 2, 20), "v": (5, 2, 20)}
    shapes |= {"k_pool": (4, 2, 20, 64), "v_pool": (4, 2, 64, 20), "y": (5, 6, 20), "sinks": (6,)}
    arguments: dict[str, Any] = {"level": kernel.level, "pool": kernel.pool, "window": None}
    arguments |= {key: np.zeros(shape, np.float32) for key, shape in shapes.items()}
    arguments |= {"spans": [(0, 5, 0, 0, 1)], "blocks": [0], "scale": 1.0}
    if isinstance(value, tuple):
        arguments[name] = np.zeros(value, np.float32)
        if name == "k":
            arguments["v"] = arguments["k"]
    else:
        arguments[name] = value
    for key in ("spans", "blocks"):
        arguments[key] = np.array(arguments[key], np.int32)
    with pytest.raises(ValueError, match=message):
        _kernels.attention(**arguments)


@pytest.mark.parametrize("kinds", [("f8", "f8"), ("f2", "f4"), ("f4", "f2"), ("u2", "u2")])
def test_pools_of_other_types_are_refused(kernel: Kernel, kinds: tuple[str, str]) -> None:
    x, pools = random_rows(7, 5, 6, 2, 20), Pools(2, 20, 5)
    pools.k, pools.v = np.zeros(pools.k.shape, kinds[0]), np.zeros(pools.v.shape, kinds[1])
    with pytest.raises(TypeError, match="incompatible function arguments"):
        kernel.step(pools, (0, 0, x))
