"""Slots, steps and groups of one cache for all layers of a model."""

import numpy as np
import pytest

from junto.cache import AttentionState, Cache, DeltaState
from junto.errors import RequestError
from junto.ops.views import Batch

FULL = AttentionState(n_head_kv=2, head_dim=5)
SLIDING = AttentionState(n_head_kv=2, head_dim=5, window=100)
DELTA = DeltaState(n_head_k=3, n_head_v=6, head_dim=7, n_tap=4)
LAYERS = (SLIDING, FULL, SLIDING, DELTA, FULL, SLIDING, DELTA)
FULL_BLOCK, SLIDING_BLOCK = (n * 2 * 2 * 64 * 5 * 4 for n in (2, 3))


def make(n_slot: int = 3, n_ctx: int = 1000) -> Cache:
    return Cache(LAYERS, n_slot=n_slot, n_ctx=n_ctx)


def feed(cache: Cache, *work: tuple[int, int]) -> Batch:
    """One committed step of (slot, number of tokens)."""
    parts = [(slot, cache.length(slot), [7] * n_tok) for slot, n_tok in work]
    batch = Batch.pack(parts, all_logits=False)
    cache.begin(batch)
    cache.commit(batch)
    return batch


def snapshot(cache: Cache) -> list[object]:
    """All that truncation could change."""
    tables = [group.table(s) for group in cache.kv_groups for s in range(cache.n_slot)]
    return [
        [(table.first, table.blocks.tolist()) for table in tables],
        [cache.length(slot) for slot in range(cache.n_slot)],
        cache.delta(3, span(cache, 0)).anchors,
        cache.n_bytes_kv,
    ]


def span(cache: Cache, slot: int) -> Batch:
    return Batch.pack([(slot, cache.length(slot), [7])], all_logits=False)


def test_slots_are_handed_out_once_and_run_out() -> None:
    cache = make()
    assert [cache.open() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(RequestError) as caught:
        cache.open()
    assert str(caught.value) == "all 3 slots are taken; close one first"
    cache.close(1)
    assert cache.open() == 1


def test_closing_a_slot_that_is_not_open_is_a_fault_of_the_caller() -> None:
    """Closed twice, a slot would be handed to two sequences, which would mix their states."""
    cache = make()
    slot = cache.open()
    cache.close(slot)
    with pytest.raises(AssertionError, match="slot 0 is not open"):
        cache.close(slot)
    assert {cache.open(), cache.open(), cache.open()} == {0, 1, 2}


def test_step_of_a_slot_that_is_not_open_is_a_fault_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="slot 2 is not open"):
        make().begin(Batch.pack([(2, 0, [7])], all_logits=False))


def test_layers_that_remember_alike_share_one_group() -> None:
    cache = make()
    assert [group.window for group in cache.kv_groups] == [100, None]
    feed(cache, (cache.open(), 65))
    batch = span(cache, 0)
    views = {layer: cache.kv(layer, batch) for layer in (0, 1, 2, 4, 5)}
    for a, b in ((0, 2), (2, 5), (1, 4)):
        np.testing.assert_array_equal(views[a].tables[0].blocks, views[b].tables[0].blocks)
    pools = [pool for view in views.values() for pool in (view.k, view.v)]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(pools) for b in pools[i + 1 :])
    assert not np.shares_memory(cache.delta(3, batch).state, cache.delta(6, batch).state)


def test_views_are_the_same_storage_each_time() -> None:
    """What attention writes in one step is there in the next."""
    cache = make()
    feed(cache, (cache.open(), 65))
    cache.kv(4, span(cache, 0)).k[0] = 3
    cache.delta(6, span(cache, 0)).state[0] = 4
    assert (cache.kv(4, span(cache, 0)).k[0] == 3).all()
    assert (cache.delta(6, span(cache, 0)).state[0] == 4).all()
    assert not cache.kv(1, span(cache, 0)).k.any()


@pytest.mark.parametrize(("layer", "kind"), [(3, "attention"), (0, "DeltaNet")])
def test_view_of_the_wrong_kind_is_a_fault_of_the_caller(layer: int, kind: str) -> None:
    cache = make()
    feed(cache, (cache.open(), 1))
    with pytest.raises(AssertionError, match=f"layer {layer} is no {kind} layer"):
        (cache.kv if kind == "attention" else cache.delta)(layer, span(cache, 0))


def test_bytes_and_blocks_of_a_ragged_batch_are_exact() -> None:
    cache = make()
    assert cache.n_bytes_kv == 0
    a, b = cache.open(), cache.open()
    feed(cache, (a, 130), (b, 64))
    sliding, full = cache.kv_groups
    assert (sliding.n_block_used, full.n_block_used) == (4, 4)
    assert cache.n_bytes_kv == 4 * (SLIDING_BLOCK + FULL_BLOCK)
    feed(cache, (a, 100), (b, 1))
    # a: positions below 230 - 64 - 99 = 67 are unseen, which is block 0; b needs a second block.
    assert [sliding.table(slot).first for slot in (a, b)] == [1, 0]
    assert (sliding.n_block_used, full.n_block_used) == (3 + 2, 4 + 2)
    assert cache.n_bytes_kv == 6 * (SLIDING_BLOCK + FULL_BLOCK)


def test_delta_bytes_are_those_of_all_slots_from_the_start() -> None:
    state, entries = 6 * 7 * 7, 64 * (3 * 7 + 6 * 7 + 6)
    tail = (3 + 64) * 12 * 7
    assert make().n_bytes_delta == 4 * 2 * 3 * (state + entries + tail)
    assert Cache([FULL], n_slot=2, n_ctx=9).n_bytes_delta == 0


def test_closed_sequence_leaves_its_blocks_to_the_next() -> None:
    cache = make()
    feed(cache, (cache.open(), 300))
    n_bytes = cache.n_bytes_kv
    cache.close(0)
    assert [group.n_block_used for group in cache.kv_groups] == [0, 0]
    slot = cache.open()
    assert cache.length(slot) == 0
    feed(cache, (slot, 300))
    assert cache.n_bytes_kv == n_bytes


def test_tokens_count_when_the_step_is_committed() -> None:
    cache = make()
    slot = cache.open()
    batch = Batch.pack([(slot, 0, [7] * 65)], all_logits=False)
    cache.begin(batch)
    assert cache.length(slot) == 0
    assert cache.delta(3, batch).anchors == (0,)
    assert len(cache.kv(1, batch).tables[0].blocks) == 2
    cache.commit(batch)
    assert cache.length(slot) == 65
    assert cache.delta(3, span(cache, slot)).anchors == (64,)


@pytest.mark.parametrize("pos", [0, 64, 66])
def test_step_must_continue_its_sequence(pos: int) -> None:
    cache = make()
    feed(cache, (cache.open(), 65))
    with pytest.raises(AssertionError, match="continues its sequence"):
        cache.begin(Batch.pack([(0, pos, [7])], all_logits=False))


def test_context_is_filled_to_its_last_token_and_not_beyond() -> None:
    cache = make(n_ctx=1200)
    a, b = cache.open(), cache.open()
    feed(cache, (a, 1200), (b, 3))
    before = snapshot(cache)
    with pytest.raises(RequestError) as caught:
        cache.begin(Batch.pack([(b, 3, [7] * 70), (a, 1200, [7])], all_logits=False))
    assert str(caught.value) == (
        "slot 0: 1,201 tokens do not fit the context of 1,200 (raise n_ctx)"
    )
    assert snapshot(cache) == before


@pytest.mark.parametrize("n_tok", [128, 129, 160, 200])
def test_truncation_drops_tokens_and_their_blocks(n_tok: int) -> None:
    cache = make()
    slot = cache.open()
    feed(cache, (slot, 192))  # DeltaNet's anchor is 128
    assert len(cache.kv_groups[1].table(slot).blocks) == 3
    cache.truncate(slot, min(n_tok, 192))
    assert cache.length(slot) == min(n_tok, 192)
    n_block = -(-min(n_tok, 192) // 64)
    assert [len(group.table(slot).blocks) for group in cache.kv_groups] == [n_block, n_block]
    feed(cache, (slot, 192 - min(n_tok, 192) + 1))
    assert cache.length(slot) == 193


@pytest.mark.parametrize(
    ("n_tok", "reason"),
    [
        (-1, "it holds 300"),
        (301, "it holds 300"),
        (160, "the sliding window's keys before 128 are freed (nearest: 227)"),
        (230, "recurrent state at 256 keeps no earlier snapshot (nearest: 256)"),
    ],
)
def test_refused_truncation_says_why_and_changes_nothing(n_tok: int, reason: str) -> None:
    cache = make()
    feed(cache, (cache.open(), 300))
    before = snapshot(cache)
    with pytest.raises(RequestError) as caught:
        cache.truncate(0, n_tok)
    assert str(caught.value) == f"slot 0: cannot truncate to {n_tok} tokens: {reason}"
    assert snapshot(cache) == before
