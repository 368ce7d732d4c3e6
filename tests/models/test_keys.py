"""Values of metadata and config.json: what is taken, what is refused, and what nobody asked for."""

import math
import re
from typing import Any

import numpy as np
import pytest

from junto.errors import ModelError
from junto.models.keys import N_MAX, Keys


def keys(**values: Any) -> Keys:
    return Keys({f"m.{key}": value for key, value in values.items()}, "file", "m.")


def refuses(message: str) -> Any:
    return pytest.raises(ModelError, match=f"^{re.escape(message)}$")


def test_values_come_as_plain_python() -> None:
    read = keys(n=np.int32(7), x=3, a=np.array([11, 10, 0], np.int32), b=np.array([True, False]))
    assert type(read.integer("n")) is int
    assert type(read.number("x")) is float
    assert read.integers("a") == (11, 10, 0)
    assert read.integers("b") == (1, 0)
    assert all(type(value) is int for value in read.integers("b"))


def test_missing_key_is_an_error_and_null_is_missing() -> None:
    for read in (keys(), keys(n=None)):
        assert "n" not in read
        with refuses("file: key 'm.n' is missing"):
            read.integer("n")
        assert read.integer("n", absent=3) == 3
        assert read.number("n", absent=0.5) == 0.5
        assert read.flag("n", absent=False) is False
        assert read.integers("n", absent=()) == ()
        assert read.choice("n", "a", "b", absent="b") == "b"
        read.expect("n", 1)


@pytest.mark.parametrize("value", [True, 2.0, "2", [2], np.array([2]), np.float32(2), {}])
def test_integer_takes_no_other_kind(value: object) -> None:
    with pytest.raises(ModelError, match=r"^file: 'm\.n' is .*, expected a whole number$"):
        keys(n=value).integer("n")


def test_integer_has_bounds_on_both_sides() -> None:
    assert keys(n=N_MAX).integer("n") == N_MAX == 2**31 - 1
    with refuses("file: 'm.n' is 2147483648, expected 1 to 2147483647"):
        keys(n=2**31).integer("n")
    with refuses("file: 'm.n' is -1, expected 0 to 4"):
        keys(n=-1).integer("n", low=0, high=4)


@pytest.mark.parametrize("value", [True, "1e-6", [1.0], np.array([1.0]), {}])
def test_number_takes_no_other_kind(value: object) -> None:
    with pytest.raises(ModelError, match=r"^file: 'm\.x' is .*, expected a number$"):
        keys(x=value).number("x")


@pytest.mark.parametrize("value", [0, 0.0, -1e-6, math.nan, math.inf, -math.inf, 10**400])
def test_number_is_finite_and_positive(value: float) -> None:
    """A whole number beyond float's range raised OverflowError."""
    with pytest.raises(ModelError, match=r"expected a finite number above 0$"):
        keys(x=value).number("x")


def test_number_may_have_a_higher_bound() -> None:
    assert keys(x=1.5).number("x", above=1) == 1.5
    with refuses("file: 'm.x' is 1.0, expected a finite number above 1"):
        keys(x=1.0).number("x", above=1)


@pytest.mark.parametrize("value", [7, "1,2", [1.0], [-1], [[1]], ["1"], np.array([1.5])])
def test_integers_takes_no_other_list(value: object) -> None:
    with pytest.raises(ModelError, match=r"expected a list of whole numbers$"):
        keys(a=value).integers("a")


def test_names_tells_which_one_is_unknown() -> None:
    assert keys(t=["a", "b", "a"]).names("t", ("a", "b")) == ("a", "b", "a")
    with refuses("file: 'm.t[2]' is 'c', expected 'a' or 'b'"):
        keys(t=["a", "b", "c"]).names("t", ("a", "b"))
    with refuses("file: 'm.t[0]' is 7, expected 'a' or 'b'"):
        keys(t=[7]).names("t", ("a", "b"))
    with refuses("file: 'm.t' is 'a', expected a list of names"):
        keys(t="a").names("t", ("a", "b"))


@pytest.mark.parametrize("value", [0, 1, "true", [], 1.0])
def test_flag_takes_nothing_but_a_bool(value: object) -> None:
    with pytest.raises(ModelError, match=r"expected true or false$"):
        keys(f=value).flag("f")


def test_choice_and_expect_allow_what_they_name() -> None:
    assert keys(c="b").choice("c", "a", "b", absent="a") == "b"
    with refuses("file: 'm.c' is 'd', expected 'a' or 'b'"):
        keys(c="d").choice("c", "a", "b", absent="a")
    keys(c=[]).expect("c", [])
    with refuses("file: 'm.c' is [1], expected []"):
        keys(c=[1]).expect("c", [])
    with refuses("file: 'm.c' is {'bits': 4}, expected none"):
        keys(c={"bits": 4}).expect("c")


@pytest.mark.parametrize("value", [np.array([3, 3]), np.array([3]), np.array([], np.int32)])
def test_expect_refuses_an_array(value: object) -> None:
    """Comparing it raised numpy's ValueError."""
    with pytest.raises(ModelError, match=r"^file: 'm\.c' is array\(\[.*\), expected 3$"):
        keys(c=value).expect("c", 3)


@pytest.mark.parametrize("value", ["x\ny" * 9999, np.zeros((40, 40)), [0] * 9999, 10**4000])
def test_shown_values_are_short_and_on_one_line(value: object) -> None:
    with pytest.raises(ModelError) as raised:
        keys(n=value).integer("n", high=9)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 110


def test_section_names_its_place() -> None:
    read = Keys({"rope": {"theta": "x"}, "flat": 3}, "config.json")
    with refuses("config.json: rope: 'theta' is 'x', expected a number"):
        read.section("rope").number("theta")
    with refuses("config.json: 'flat' is 3, expected an object"):
        read.section("flat")
    with refuses("config.json: key 'gone' is missing"):
        read.section("gone")
    with refuses("config.json: rope: no good"):
        raise read.section("rope").refuse("no good")


def test_unread_keys_are_those_under_the_prefix_that_nobody_asked_for() -> None:
    values = {"m.a": 1, "m.b": 2, "m.c": 3, "m.null": None, "general.name": "x", "mm.d": 4}
    read = Keys(values, "file", "m.")
    read.integer("a")
    assert read.unread() == ["b", "c"]
    assert read.unread(ignored={"c", "z"}) == ["b"]


def test_a_key_that_was_only_looked_for_counts_as_unread() -> None:
    read = keys(a=1)
    assert "a" in read
    assert read.unread() == ["a"]


def test_unread_keys_of_a_section_count_too() -> None:
    """What a nested config says was passed over in silence."""
    read = Keys({"rope": {"theta": 2.0, "new": 1, "old": 2}, "other": {"x": 1}}, "file")
    assert read.unread() == ["other", "rope"]
    read.section("rope").number("theta")
    read.section("rope")
    assert read.unread(ignored={"old"}) == ["other", "rope.new"]
