"""Block tables, resident bytes, what a sliding window forgets, and what may be taken back."""

import numpy as np
import pytest

from junto.cache.paged_kv import PagedKV
from junto.errors import RequestError
from junto.ops.views import Span

N_LAYER, N_HEAD_KV, HEAD_DIM, N_SLOT = 3, 2, 5, 4
BLOCK_BYTES = 2 * N_LAYER * N_HEAD_KV * 64 * HEAD_DIM * 4


def paged(window: int | None = None) -> PagedKV:
    return PagedKV(N_LAYER, N_HEAD_KV, HEAD_DIM, N_SLOT, window)


def blocks(kv: PagedKV, slot: int) -> list[int]:
    return [int(block) for block in kv.table(slot).blocks]


def filled(n_pos: int, window: int, step: int = 64) -> PagedKV:
    """Slot 0 after `n_pos` tokens, `step` at a time."""
    kv = paged(window)
    for end in [*range(step, n_pos, step), n_pos]:
        kv.reserve(0, end)
        kv.forget_unseen(0, end)
    return kv


def test_nothing_is_resident_before_the_first_token() -> None:
    kv = paged()
    assert (kv.n_bytes, kv.n_block_used, blocks(kv, 0)) == (0, 0, [])


@pytest.mark.parametrize(
    ("n_pos", "n_block"),
    [(1, 1), (63, 1), (64, 1), (65, 2), (127, 2), (128, 2), (129, 3), (130, 3)],
)
def test_sequence_holds_one_block_for_each_64_positions_begun(n_pos: int, n_block: int) -> None:
    kv = paged()
    kv.reserve(2, n_pos)
    assert (kv.n_block_used, len(blocks(kv, 2))) == (n_block, n_block)
    assert kv.n_bytes == n_block * BLOCK_BYTES
    assert kv.table(2).first == 0
    assert kv.table(2).blocks.dtype == np.int32


def test_tables_grow_on_demand_and_never_share_a_block() -> None:
    kv = paged()
    for slot, n_pos in ((0, 1), (3, 130), (0, 64), (0, 65), (1, 64), (3, 193)):
        kv.reserve(slot, n_pos)
    tables = [blocks(kv, slot) for slot in range(N_SLOT)]
    assert list(map(len, tables)) == [2, 1, 0, 4]
    held = [block for table in tables for block in table]
    assert len(set(held)) == len(held) == kv.n_block_used == 7
    assert max(held) < kv.n_bytes // BLOCK_BYTES


def test_reserving_what_is_held_changes_nothing() -> None:
    kv = paged()
    kv.reserve(0, 130)
    before = blocks(kv, 0)
    kv.reserve(0, 129)
    kv.reserve(0, 192)
    assert blocks(kv, 0) == before


def test_pool_grows_by_half_so_that_long_sequences_copy_little() -> None:
    kv, sizes = paged(), []
    for n_block in range(1, 15):
        kv.reserve(0, n_block * 64)
        sizes.append(kv.n_bytes // BLOCK_BYTES)
    assert sizes == [1, 2, 3, 4, 6, 6, 9, 9, 9, 13, 13, 13, 13, 19]


def test_growth_keeps_what_was_written() -> None:
    kv = paged()
    kv.reserve(0, 64)
    view = kv.view(1, (Span(0, 0, 64, 0),))
    view.k[view.tables[0].blocks[0]] = 3
    view.v[view.tables[0].blocks[0]] = 4
    kv.reserve(0, 1000)
    grown = kv.view(1, (Span(0, 0, 936, 64),))
    block = grown.tables[0].blocks[0]
    np.testing.assert_array_equal(grown.k[block], 3)
    np.testing.assert_array_equal(grown.v[block], 4)


def test_layers_share_tables_and_not_their_content() -> None:
    kv, spans = paged(), (Span(1, 0, 65, 0), Span(0, 65, 1, 0))
    kv.reserve(1, 65)
    kv.reserve(0, 1)
    first, second = kv.view(0, spans), kv.view(2, spans)
    for a, b in zip(first.tables, second.tables, strict=True):
        np.testing.assert_array_equal(a.blocks, b.blocks)
    assert [len(t.blocks) for t in first.tables] == [2, 1]
    assert first.spans == spans
    assert not any(np.shares_memory(a, b) for a in (first.k, first.v) for b in (second.k, second.v))
    assert first.k.shape == (3, N_HEAD_KV, HEAD_DIM, 64)
    assert first.v.shape == (3, N_HEAD_KV, 64, HEAD_DIM)


def test_without_a_window_nothing_is_forgotten() -> None:
    kv = paged()
    kv.reserve(0, 700)
    kv.forget_unseen(0, 700)
    assert (kv.table(0).first, kv.n_block_used) == (0, 11)


@pytest.mark.parametrize("window", [1, 2, 63, 64, 65, 128, 130])
def test_window_frees_exactly_the_blocks_unseen_from_64_tokens_back(window: int) -> None:
    """A query at n - 64 sees positions above n - 64 - window; a block goes when none is seen."""
    for n_pos in range(1, 420):
        kv = paged(window)
        kv.reserve(0, n_pos)
        kv.forget_unseen(0, n_pos)
        oldest_seen = max(0, n_pos - 64 - window + 1)
        unseen = [b for b in range(-(-n_pos // 64)) if 64 * b + 63 < oldest_seen]
        assert kv.table(0).first == len(unseen)
        assert kv.n_block_used == -(-n_pos // 64) - len(unseen)


@pytest.mark.parametrize("step", [1, 3, 64, 65, 512])
def test_steps_of_any_length_forget_alike(step: int) -> None:
    kv = filled(500, window=128, step=step)
    assert (kv.table(0).first, kv.n_block_used) == (4, 4)


def test_window_bounds_the_resident_blocks_however_long_the_sequence() -> None:
    kv = filled(6400, window=128, step=1)
    assert kv.n_block_used <= 4
    assert kv.n_bytes <= 6 * BLOCK_BYTES


def test_freed_blocks_serve_other_sequences_before_the_pool_grows() -> None:
    kv = paged(window=1)
    kv.reserve(0, 320)
    kv.forget_unseen(0, 320)
    assert (kv.table(0).first, kv.n_block_used) == (4, 1)
    kv.reserve(1, 256)
    assert kv.n_bytes == 5 * BLOCK_BYTES
    assert not set(blocks(kv, 0)) & set(blocks(kv, 1))


def test_cleared_slot_gives_its_blocks_back_and_begins_at_zero() -> None:
    kv = filled(500, window=128)
    n_bytes = kv.n_bytes
    kv.clear(0)
    assert (kv.n_block_used, kv.table(0).first, blocks(kv, 0)) == (0, 0, [])
    kv.reserve(3, n_bytes // BLOCK_BYTES * 64)
    assert kv.n_bytes == n_bytes


@pytest.mark.parametrize(("n_pos", "n_block"), [(0, 0), (1, 1), (64, 1), (65, 2), (129, 3)])
def test_truncation_frees_the_blocks_behind_it(n_pos: int, n_block: int) -> None:
    kv = paged()
    kv.reserve(0, 130)
    before = blocks(kv, 0)
    kv.check_truncate(0, n_pos)
    kv.truncate(0, n_pos)
    assert blocks(kv, 0) == before[:n_block]
    assert kv.n_block_used == n_block
    kv.reserve(0, 130)
    assert kv.n_bytes == 3 * BLOCK_BYTES


@pytest.mark.parametrize("window", [1, 2, 63, 64, 65, 128, 130])
def test_last_64_tokens_can_always_be_dropped(window: int) -> None:
    for n_pos in range(64, 420):
        kv = paged(window)
        kv.reserve(0, n_pos)
        kv.forget_unseen(0, n_pos)
        kv.check_truncate(0, n_pos - 64)
        kv.truncate(0, n_pos - 64)
        table = kv.table(0)
        assert table.first + len(table.blocks) == -(-(n_pos - 64) // 64)


def test_truncation_into_forgotten_keys_is_refused_with_the_nearest_length() -> None:
    kv = filled(500, window=128)
    held_from = 64 * kv.table(0).first
    nearest = held_from + 127  # sees held_from and no older position
    kv.check_truncate(0, nearest)
    for n_pos in (nearest - 1, 0):
        with pytest.raises(RequestError) as caught:
            kv.check_truncate(0, n_pos)
        assert str(caught.value) == (
            f"slot 0: cannot truncate to {n_pos} tokens: the sliding window's keys before "
            "256 are freed (nearest: 383)"
        )
