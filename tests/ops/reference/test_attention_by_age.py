"""The reference on a cache whose blocks age, against the rule written out row by row.

Tolerance 2e-6 of the largest result, as for attention without age; codes of 4 bits are off by 0.1.
"""

import numpy as np
import pytest

from junto.cache import Cache, KVType
from junto.ops.reference import Reference
from junto.ops.views import F32
from tests.ops.aged_sequence import (
    Rows,
    attention_by_age,
    cache_for,
    in_steps,
    joined,
    nobody_reads_what_is_free,
    random_rows,
    step,
)
from tests.ops.nearness import assert_near

ROUNDINGS = 2e-6
TYPES = [
    KVType("q8_0"),
    KVType("q4_0"),
    KVType("q4_0", window=0, sinks=0),
    KVType("q8_0", window=64, sinks=0),
    KVType("q4_0", window=1, sinks=128),
]
SINKS = np.array([0.5, -3, 2, 0, 4, -0.25], np.float32)


def rows(seed: int, n_tok: int) -> Rows:
    return random_rows(seed, n_tok, 6, 2, 32)


def alone(x: Rows, kv: KVType) -> F32:
    return in_steps(Reference(), cache_for(x, kv), x, [])


@pytest.mark.parametrize("kv", TYPES, ids=str)
@pytest.mark.parametrize("n_tok", [1, 64, 65, 129, 330])
def test_each_query_sees_the_form_that_its_distance_says(kv: KVType, n_tok: int) -> None:
    x = rows(n_tok, n_tok)
    with nobody_reads_what_is_free():
        y = in_steps(Reference(), cache_for(x, kv), x, [])
    assert_near(y, attention_by_age(x, kv), ROUNDINGS)


@pytest.mark.parametrize("kv", TYPES, ids=str)
@pytest.mark.parametrize("cuts", [[64], [63, 65, 131], [200], list(range(1, 330))])
def test_any_cut_equals_the_whole(kv: KVType, cuts: list[int]) -> None:
    x = rows(3, 330)
    with nobody_reads_what_is_free():
        y = in_steps(Reference(), cache_for(x, kv), x, cuts)
    assert_near(y, alone(x, kv), ROUNDINGS)


def test_sinks_of_the_softmax_join_rows_that_see_codes() -> None:
    x, kv = rows(1, 330), TYPES[1]
    y = step(Reference(), opened(x, kv), (0, x), sinks=SINKS)[0]
    assert_near(y, attention_by_age(x, kv, SINKS), ROUNDINGS)


def opened(x: Rows, kv: KVType) -> Cache:
    cache = cache_for(x, kv)
    cache.open()
    return cache


def test_forms_differ_so_that_the_wrong_one_would_show() -> None:
    x = rows(4, 330)
    exact = attention_by_age(x, KVType("f16"))
    for kv, least in ((TYPES[0], 1e-4), (TYPES[1], 3e-3)):
        error = np.abs(attention_by_age(x, kv) - exact).max(axis=(1, 2)) / np.abs(exact).max()
        assert (error[:256] == 0).all()
        assert error[256:].min() > least


@pytest.mark.parametrize("kv", TYPES, ids=str)
@pytest.mark.parametrize(("n_fed", "n_kept"), [(330, 266), (384, 320), (385, 321), (400, 399)])
def test_truncated_tokens_were_never_there(kv: KVType, n_fed: int, n_kept: int) -> None:
    """A neighbour takes the freed blocks before the sequence goes on with other tokens."""
    ops, old, new = Reference(), rows(1, n_fed), rows(2, 200)
    cache = cache_for(old, kv, n_slot=2)
    with nobody_reads_what_is_free():
        in_steps(ops, cache, old, [100])
        cache.truncate(0, n_kept)
        in_steps(ops, cache, rows(3, 300), [])
        y = np.concatenate([step(ops, cache, (0, new[a:b]))[0] for a, b in ((0, 7), (7, 200))])
    assert_near(y, alone(joined([old[:n_kept], new]), kv)[n_kept:], ROUNDINGS)
