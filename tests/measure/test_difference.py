"""Relative errors: by rows, whole numbers, shapes, and what is not finite."""

import numpy as np
import pytest

from junto.measure.difference import Difference, difference
from junto.ops.contract import Angles, Routing

ROWS = np.array([[3.0, 4.0], [30.0, 40.0], [3.0, 4.0]], np.float32)


def test_equal_results_have_no_difference() -> None:
    assert difference(ROWS, ROWS.copy()) == Difference()
    assert difference((ROWS, ROWS), (ROWS, ROWS)) == Difference()


def test_errors_are_relative_to_their_row() -> None:
    got = ROWS.copy()
    got[1, 1] += 4.0
    found = difference(ROWS, got)
    assert found.largest == pytest.approx(0.1)
    assert found.mean == pytest.approx(4 / 50 / 3)


def test_a_row_below_the_median_is_held_against_that() -> None:
    """The middle of three rows' largest values is 40, so an error of 4 counts as a tenth of it."""
    rows = np.array([[40.0, 1.0], [40.0, 2.0], [1e-6, 0.0]], np.float32)
    got = rows.copy()
    got[2, 1] = 4.0
    assert difference(rows, got).largest == pytest.approx(0.1)


def test_zeros_where_zeros_are_expected_are_right() -> None:
    zeros = np.zeros((2, 3), np.float32)
    assert difference(zeros, zeros) == Difference()
    assert difference(zeros, zeros + 1).worst > 1e30


def test_what_is_not_finite_or_not_of_the_shape_is_infinitely_wrong() -> None:
    got = ROWS.copy()
    got[0, 0] = np.nan
    assert difference(ROWS, got).worst == np.inf
    assert difference(ROWS, ROWS[:2]).worst == np.inf


def test_whole_numbers_are_equal_or_not() -> None:
    ids, weights = np.array([[1, 2]]), np.ones((1, 2), np.float32)
    routing = Routing(ids, weights)
    assert difference(routing, Routing(ids.copy(), weights)) == Difference()
    assert difference(routing, Routing(ids + 1, weights)).worst == np.inf


def test_angles_are_compared_by_both_parts() -> None:
    right = Angles(ROWS, ROWS, "half")
    assert difference(right, Angles(ROWS, ROWS * 2, "half")).worst == pytest.approx(1)


def test_what_holds_no_arrays_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match="results of type int cannot be compared"):
        difference(1, 1)
