"""The attention kernel over blocks that age: near the rule, and the same bits in any company.

Tolerance 3e-6 of the largest result, as without age; the wrong form would be off by 1e-3 and more.
"""

from typing import Any

import numpy as np
import pytest

from junto import _kernels
from junto.cache import KVType
from junto.ops.cpu import Cpu
from junto.ops.reference import Reference
from junto.ops.views import F32, Batch
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

ROUNDINGS = 3e-6
TYPES = [
    KVType("q8_0"),
    KVType("q4_0"),
    KVType("q8_0", window=0, sinks=0),
    KVType("q4_0", window=64, sinks=0),
    KVType("q4_0", window=1, sinks=128),
]
SHAPES = [
    pytest.param(3, 1, 32, id="half a tile"),
    pytest.param(5, 5, 96, id="no groups, a tile and a half"),
    pytest.param(16, 2, 64, id="groups of eight"),
    pytest.param(70, 1, 160, id="a group above a tile of pairs"),
]


@pytest.fixture
def ops(level: str) -> Cpu:
    return Cpu(2, level)


def rows(seed: int, n_tok: int) -> Rows:
    return random_rows(seed, n_tok, 6, 2, 64)


def sinks_of(n_head: int) -> F32:
    return np.random.default_rng(9).uniform(-3, 4, n_head).astype(np.float32)


def assert_same_bits(a: F32, b: F32) -> None:
    np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("kv", TYPES[:2], ids=str)
@pytest.mark.parametrize(("n_head", "n_head_kv", "head_dim"), SHAPES)
def test_each_query_sees_the_form_that_its_distance_says(
    ops: Cpu, kv: KVType, n_head: int, n_head_kv: int, head_dim: int
) -> None:
    x, sinks = random_rows(1, 330, n_head, n_head_kv, head_dim), sinks_of(n_head)
    cache = cache_for(x, kv)
    with nobody_reads_what_is_free():
        y = step(ops, cache, (cache.open(), x), sinks=sinks)[0]
    assert_near(y, attention_by_age(x, kv, sinks), ROUNDINGS)


@pytest.mark.parametrize("kv", TYPES[2:], ids=str)
def test_other_windows_and_sinks(ops: Cpu, kv: KVType) -> None:
    x = rows(2, 270)
    assert_near(in_steps(ops, cache_for(x, kv), x, [100]), attention_by_age(x, kv), ROUNDINGS)


@pytest.mark.parametrize("name", ["q8_0", "q4_0"])
def test_codes_are_those_of_the_reference(ops: Cpu, name: Any) -> None:
    x, kv = rows(3, 500), KVType(name)
    x.k[70:80] *= 1e-6
    x.v[90:100] = 0
    held = []
    for backend in (ops, Reference()):
        cache = cache_for(x, kv)
        in_steps(backend, cache, x, [300])
        aged = cache.kv(0, Batch.pack([(0, 500, [1])], all_logits=False)).aged
        assert aged is not None
        blocks = aged.tables[0].blocks
        held.append([a[blocks] for codes in (aged.k, aged.v) for a in (codes.codes, codes.scales)])
    assert len(held[0][0]) == 4
    for ours, theirs in zip(*held, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kv", TYPES, ids=str)
@pytest.mark.parametrize("cuts", [[64], [1, 2, 3], [63, 65, 131, 300], list(range(1, 340))])
def test_any_cut_gives_the_same_bits(ops: Cpu, kv: KVType, cuts: list[int]) -> None:
    """Prefill reads a code for many queries, decode for one; both see the same value."""
    x = rows(4, 340)
    whole = in_steps(ops, cache_for(x, kv), x, [])
    with nobody_reads_what_is_free():
        cut = in_steps(ops, cache_for(x, kv), x, cuts)
    assert_same_bits(cut, whole)


@pytest.mark.parametrize("kv", TYPES[:2], ids=str)
def test_a_long_past_split_over_threads_gives_the_same_bits(level: str, kv: KVType) -> None:
    """Decode splits a past of more than 1,024 positions; prefill does not."""
    x = rows(5, 1300)
    whole = in_steps(Cpu(1, level), cache_for(x, kv), x, [])
    for n_threads in (1, 2):
        decode = Cpu(n_threads, level)
        cut = in_steps(decode, cache_for(x, kv), x, [1020, *range(1295, 1300)])
        assert_same_bits(cut, whole)


@pytest.mark.parametrize("kv", TYPES, ids=str)
def test_neighbours_slots_and_threads_change_no_bit(level: str, kv: KVType) -> None:
    xs = [rows(10 + i, n) for i, n in enumerate((400, 66, 271))]
    alone = [in_steps(Cpu(1, level), cache_for(x, kv), x, [60]) for x in xs]
    for order, n_threads in (((0, 1, 2), 2), ((2, 0, 1), 1)):
        ops, cache = Cpu(n_threads, level), cache_for(xs[0], kv, n_slot=3)
        slots = [cache.open() for _ in xs]
        with nobody_reads_what_is_free():
            first = step(ops, cache, *((slots[2 - i], xs[i][:60]) for i in order))
            rest = step(ops, cache, *((slots[2 - i], xs[i][60:]) for i in order))
        for i, *parts in zip(order, first, rest, strict=True):
            assert_same_bits(np.concatenate(parts), alone[i])


@pytest.mark.parametrize("kv", TYPES, ids=str)
@pytest.mark.parametrize(("n_fed", "n_kept"), [(330, 266), (384, 320), (385, 321), (400, 399)])
def test_truncated_tokens_leave_no_bit_behind(
    ops: Cpu, kv: KVType, n_fed: int, n_kept: int
) -> None:
    """A block that was quantised is so again, from other values if its tokens changed."""
    old, new = rows(1, n_fed), rows(2, 200)
    cache = cache_for(old, kv, n_slot=2)
    with nobody_reads_what_is_free():
        in_steps(ops, cache, old, [100])
        cache.truncate(0, n_kept)
        in_steps(ops, cache, rows(3, 300), [])
        y = np.concatenate([step(ops, cache, (0, new[a:b]))[0] for a, b in ((0, 7), (7, 200))])
    whole = joined([old[:n_kept], new])
    assert_same_bits(y, in_steps(ops, cache_for(whole, kv), whole, [])[n_kept:])


def test_closed_slots_leave_no_bit_behind(ops: Cpu) -> None:
    x, kv = rows(1, 400), KVType("q4_0")
    used, fresh = cache_for(x, kv), cache_for(x, kv)
    for seed in (2, 3):
        in_steps(ops, used, rows(seed, 500), [90])
        used.close(0)
    assert_same_bits(in_steps(ops, used, x, [65]), in_steps(ops, fresh, x, [65]))


def test_numbers_that_overflow_float16_spoil_what_sees_them_and_nothing_else(ops: Cpu) -> None:
    x, kv = rows(6, 400), KVType("q8_0", sinks=0)
    spoilt = Rows(x.q, x.k, x.v.copy())
    spoilt.v[70, 0] = 1e6
    y, clean = (in_steps(ops, cache_for(x, kv), a, []) for a in (spoilt, x))
    np.testing.assert_array_equal(y[:70], clean[:70])
    np.testing.assert_array_equal(y[70:, 3:], clean[70:, 3:])
    assert not np.isfinite(y[350:, :3]).any()


def arguments(ops: Cpu) -> dict[str, Any]:
    """Of a step of 70 rows after 300: blocks 1 and 2 have codes, those of 2 are new."""
    x = rows(7, 300)
    cache = cache_for(x, KVType("q8_0"))
    in_steps(ops, cache, x, [])
    q, kv = np.zeros((70, 6, 64), np.float32), np.zeros((70, 2, 64), np.float32)
    batch = Batch.pack([(0, 300, range(70))], all_logits=False)
    cache.begin(batch)
    view = cache.kv(0, batch)
    aged = view.aged
    assert aged is not None
    return {
        "level": ops.level,
        "pool": _kernels.ThreadPool(1),
        **{"q": q, "k": kv, "v": kv, "k_pool": view.k, "v_pool": view.v},
        "spans": np.array([(0, 70, 300, 1, 5)], np.int32),
        "blocks": view.tables[0].blocks,
        **{"k_codes": aged.k.codes, "v_codes": aged.v.codes},
        **{"k_scales": aged.k.scales, "v_scales": aged.v.scales},
        "aged_spans": np.array([(1, 2, 1)], np.int32),
        "aged_blocks": np.array([0, 0, 1], np.int32),
        **{"n_pinned": 1, "n_recent": 2, "scale": 1.0, "sinks": None, "y": np.zeros_like(q)},
    }


UNCOVERED = "do not cover what it sees by age"
REFUSALS = [
    ("spans", [(0, 70, 300, 3, 3)], UNCOVERED),
    ("spans", [(0, 70, 300, 0, 5)], UNCOVERED),
    ("spans", [(0, 70, 300, 1, 4)], UNCOVERED),
    ("spans", [(0, 70, 300, 1, 6)], "tables of 6 blocks, got 5"),
    ("spans", [(0, 70, 300, -1, 5)], "does not cover"),
    ("aged_spans", [(0, 2, 1)], UNCOVERED),
    ("aged_spans", [(1, 1, 1)], UNCOVERED),
    ("aged_spans", [(1, 2, 3)], "1 and 2 blocks, 3 of them new"),
    ("aged_spans", [(1, 3, 1)], "where 3 are left"),
    ("aged_spans", [(-1, 2, 1)], "aged span of -1"),
    ("aged_spans", [(1, 2, -1)], "-1 of them new"),
    ("aged_spans", [(1, 2, 1)] * 2, "aged_spans is 2, spans is 1"),
    ("aged_blocks", [99, 0, 1], "block 99 of a pool of"),
    ("aged_blocks", [0, 0, -1], "block -1 of a pool of"),
    ("n_pinned", -1, "n_pinned is -1"),
    ("n_pinned", 1 << 40, "expected at least 0"),
    ("n_recent", -1, "n_recent is -1"),
    ("n_recent", 1, UNCOVERED),
    ("k_codes", (2, 2, 64, 32), "an axis of k_codes is 32, by the keys is 64"),
    ("v_codes", (3, 2, 64, 64), "an axis of v_codes is 3"),
    ("k_scales", (2, 2, 3, 64), "an axis of k_scales is 3"),
    ("v_scales", (2, 1, 2, 64), "an axis of v_scales is 1"),
    ("sinks", (5,), "sinks is 5, heads of q is 6"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSALS)
def test_arguments_that_do_not_fit_are_refused(
    ops: Cpu, name: str, value: object, message: str
) -> None:
    given = arguments(ops)
    _kernels.attention_by_age(**given)
    if isinstance(value, tuple):
        kind = np.float32 if name == "sinks" else given[name].dtype
        given[name] = np.zeros(value, kind)
    else:
        given[name] = np.array(value, np.int32) if isinstance(value, list) else value
    with pytest.raises(ValueError, match=message):
        _kernels.attention_by_age(**given)


def test_heads_that_no_group_of_32_divides_are_refused(ops: Cpu) -> None:
    given = arguments(ops)
    for name in ("q", "k", "v", "y", "v_pool"):
        given[name] = np.ascontiguousarray(given[name][..., :48])
    given["k_pool"] = np.ascontiguousarray(given["k_pool"][:, :, :48])
    with pytest.raises(ValueError, match="head_dim is 48, codes need a multiple of 32"):
        _kernels.attention_by_age(**given)


def test_codes_of_keys_and_values_of_two_types_are_refused(ops: Cpu) -> None:
    given = arguments(ops)
    given["v_codes"] = given["v_codes"].view(np.uint8)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _kernels.attention_by_age(**given)
