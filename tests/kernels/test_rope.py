"""Rotary embedding against the reference.

Tolerance 3e-7 of the largest result: two products and a sum in float32.
"""

import numpy as np
import pytest

from junto import _kernels
from junto.ops.contract import Rotation
from junto.ops.reference.rotate import angles, rope
from junto.ops.views import F32, I32
from tests.ops.nearness import assert_near, normal

ROUNDINGS = 3e-7
Pools = dict[int, _kernels.ThreadPool]
POSITIONS = np.array([0, 1, 63, 8191, 200_000], np.int32)


def rotation(n_pair: int, pairs: str) -> Rotation:
    inv_freq = 1e6 ** -(np.arange(n_pair) / max(n_pair, 1))
    return Rotation(inv_freq, "adjacent" if pairs == "adjacent" else "half", 1.25)


def turned(
    level: str, pool: _kernels.ThreadPool, x: F32, positions: I32, how: Rotation, y: F32
) -> F32:
    cos, sin = (np.empty((len(positions), len(how.inv_freq)), np.float32) for _ in range(2))
    _kernels.rope_table(positions, how.inv_freq, how.scale, cos, sin)
    _kernels.rope(level, pool, x, cos, sin, how.pairs == "adjacent", y)
    return y


@pytest.mark.parametrize("pairs", ["half", "adjacent"])
@pytest.mark.parametrize(
    ("n_pair", "head_dim"), [(1, 2), (1, 3), (15, 33), (16, 32), (17, 34), (32, 64), (32, 256)]
)
def test_equals_the_reference(
    pairs: str, n_pair: int, head_dim: int, level: str, pools_of_threads: Pools
) -> None:
    x, how = normal(n_pair, 5, 3, head_dim), rotation(n_pair, pairs)
    y = turned(level, pools_of_threads[2], x, POSITIONS, how, np.empty_like(x))
    assert_near(y, rope(x, angles(POSITIONS, how)), ROUNDINGS)
    np.testing.assert_array_equal(y[..., 2 * n_pair :], x[..., 2 * n_pair :])


@pytest.mark.parametrize("pairs", ["half", "adjacent"])
def test_heads_that_lie_apart_and_in_place(pairs: str, level: str, pools_of_threads: Pools) -> None:
    whole = normal(2, 5, 3, 2 * 40)
    before, how = whole.copy(), rotation(17, pairs)
    x = whole[..., :40]
    y = turned(level, pools_of_threads[1], x, POSITIONS, how, np.empty((5, 3, 40), np.float32))
    turned(level, pools_of_threads[1], x, POSITIONS, how, x)
    np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(whole[..., 40:], before[..., 40:])


@pytest.mark.parametrize("pairs", ["half", "adjacent"])
def test_a_token_among_many_has_the_bits_it_has_alone(
    pairs: str, level: str, pools_of_threads: Pools
) -> None:
    x, how = normal(3, 301, 3, 70), rotation(33, pairs)
    positions = np.arange(1000, 1301, dtype=np.int32)
    alone = np.empty_like(x)
    for i in range(301):
        one = slice(i, i + 1)
        turned(level, pools_of_threads[1], x[one], positions[one], how, alone[one])
    for pool in pools_of_threads.values():
        together = turned(level, pool, x, positions, how, np.empty_like(x))
        np.testing.assert_array_equal(together.view(np.uint32), alone.view(np.uint32))


@pytest.mark.parametrize(
    ("x", "table", "message"),
    [
        ((5, 3, 8), (5, 5), "5 pairs do not fit heads of 8"),
        ((5, 3, 8), (4, 2), "rows of the table is 4, tokens is 5"),
        ((5, 8), (5, 2), "axes of x is 2, expected is 3"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    x: tuple[int, ...], table: tuple[int, int], message: str, level: str, pools_of_threads: Pools
) -> None:
    rows, cos = np.zeros(x, np.float32), np.zeros(table, np.float32)
    with pytest.raises(ValueError, match=message):
        _kernels.rope(level, pools_of_threads[1], rows, cos, cos, False, rows)


def test_a_table_of_another_size_is_refused() -> None:
    positions, inv_freq = np.zeros(5, np.int32), np.zeros(3)
    right, wrong = np.zeros((5, 3), np.float32), np.zeros((5, 4), np.float32)
    with pytest.raises(ValueError, match="columns of a table is 4, pairs is 3"):
        _kernels.rope_table(positions, inv_freq, 1.0, right, wrong)
