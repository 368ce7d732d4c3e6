"""Rotary embedding: what must hold for any frequencies.

Tolerance 5e-7 of the largest value: cosine, sine, two products and a sum, each rounded to 6e-8.
"""

import numpy as np
import pytest

from junto.ops.contract import Rotation
from junto.ops.reference import Reference
from junto.ops.rotary import plain_frequencies
from junto.ops.views import F32, I32
from tests.ops.nearness import F64, SIZES, assert_near, normal

ROUNDINGS = 5e-7
INV_FREQ = plain_frequencies(10_000.0, 8)
HALF = Rotation(INV_FREQ)


def positions(*values: int) -> I32:
    return np.array(values, np.int32)


def turn(x: F32, at: I32, rotation: Rotation) -> F32:
    ops = Reference()
    return ops.rope(x, ops.angles(at, rotation))


def complex_rope(x: F32, at: I32, rotation: Rotation) -> F64:
    """Pairs (j, j + n_rot/2) as complex numbers times scale * e^(i * angle), in float64."""
    n = len(rotation.inv_freq)
    y = x.astype(np.float64)
    turn = np.exp(1j * np.outer(at, rotation.inv_freq))[:, None, :] * rotation.scale
    turned = (y[..., :n] + 1j * y[..., n : 2 * n]) * turn
    y[..., :n], y[..., n : 2 * n] = turned.real, turned.imag
    return y


@pytest.mark.parametrize("n_tok", SIZES)
def test_rope_turns_pairs_like_complex_numbers(n_tok: int) -> None:
    x = normal(n_tok, n_tok, 3, 11)
    at = np.arange(40, 40 + n_tok, dtype=np.int32)
    rotation = Rotation(INV_FREQ, scale=1.3466)
    assert_near(turn(x, at, rotation), complex_rope(x, at, rotation), ROUNDINGS)


@pytest.mark.parametrize("pos", [200_000, 1_000_003])
def test_far_positions_lose_nothing(pos: int) -> None:
    """Angles in float32 would be off by 0.01 radians there."""
    x = normal(1, 1, 3, 8)
    expected = complex_rope(x, positions(pos), HALF)
    assert_near(turn(x, positions(pos), HALF), expected, ROUNDINGS)


def test_rope_keeps_the_length_and_scale_multiplies_it() -> None:
    x, at = normal(2, 3, 2, 8), positions(1, 77, 4001)
    length = np.linalg.norm(x, axis=-1)
    turned = np.linalg.norm(turn(x, at, HALF), axis=-1)
    np.testing.assert_allclose(turned, length, rtol=1e-6)
    scaled = turn(x, at, Rotation(INV_FREQ, scale=1.5))
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=-1), 1.5 * length, rtol=1e-6)


def test_product_of_query_and_key_depends_on_their_distance_alone() -> None:
    q, k = normal(3, 1, 1, 8), normal(4, 1, 1, 8)

    def product(i: int, j: int) -> float:
        turned_q = turn(q, positions(i), HALF)
        return float(np.vdot(turned_q, turn(k, positions(j), HALF)))

    near = [product(i + 5, i) for i in (0, 1, 64, 130, 9_999)]
    np.testing.assert_allclose(near, near[0], atol=2e-6)
    assert abs(product(6, 0) - near[0]) > 0.01


def test_adjacent_pairs_are_half_pairs_in_another_order() -> None:
    x, at = normal(5, 3, 2, 11), positions(0, 3, 190)
    order = [0, 4, 1, 5, 2, 6, 3, 7, 8, 9, 10]  # adjacent position of each half-split dimension
    half = turn(x, at, HALF)
    adjacent = turn(x[..., order], at, Rotation(INV_FREQ, "adjacent"))
    np.testing.assert_array_equal(adjacent, half[..., order])
    assert not np.array_equal(turn(x, at, Rotation(INV_FREQ, "adjacent")), half)


@pytest.mark.parametrize("pairs", ["half", "adjacent"])
def test_dimensions_beyond_the_rotation_stay(pairs: str) -> None:
    x = normal(6, 2, 3, 11)
    rotation = Rotation(INV_FREQ, "half" if pairs == "half" else "adjacent", scale=2.0)
    y = turn(x, positions(7, 9), rotation)
    np.testing.assert_array_equal(y[..., 8:], x[..., 8:])
    assert (y[..., :8] != x[..., :8]).all()


def test_position_zero_changes_nothing_and_arguments_are_left_alone() -> None:
    x = normal(7, 2, 3, 8)
    before = x.copy()
    y = turn(x, positions(0, 5), HALF)
    np.testing.assert_array_equal(y[0], x[0])
    np.testing.assert_array_equal(x, before)


def test_strided_heads_turn_like_contiguous_ones() -> None:
    """Queries come as every other part of a wider matrix."""
    x, at = normal(8, 3, 2, 22), positions(4, 5, 6)
    strided = x[..., :11]
    np.testing.assert_array_equal(turn(strided, at, HALF), turn(strided.copy(), at, HALF))
