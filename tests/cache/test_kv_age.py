"""Blocks that age: what is held in which form, resident bytes, and what may be taken back."""

import pytest

from junto.cache import AttentionState, Cache, KVType
from junto.cache.paged_kv import PagedKV
from junto.errors import RequestError
from junto.ops.views import Batch, Span

N_LAYER, N_HEAD_KV, HEAD_DIM, N_SLOT = 3, 2, 96, 4
F16_BLOCK = 2 * N_LAYER * N_HEAD_KV * 64 * HEAD_DIM * 2
CODE_BLOCK = {"q8_0": F16_BLOCK * 34 // 64, "q4_0": F16_BLOCK * 18 // 64}
TYPES = [
    KVType("q4_0"),
    KVType("q8_0"),
    KVType("q4_0", window=0, sinks=0),
    KVType("q8_0", window=65, sinks=0),
    KVType("q4_0", window=0, sinks=129),
]


def paged(kv: KVType, window: int | None = None) -> PagedKV:
    return PagedKV(N_LAYER, N_HEAD_KV, HEAD_DIM, N_SLOT, window, kv)


def fed(kv: KVType, n_pos: int, step: int = 64, slot: int = 0) -> PagedKV:
    held = paged(kv)
    for end in [*range(step, n_pos, step), n_pos]:
        held.reserve(slot, end)
        held.forget_unseen(slot, end)
    return held


def forms(kv: PagedKV, slot: int = 0) -> tuple[set[int], set[int]]:
    """Blocks of a sequence that are held as floats, and as codes."""
    view = kv.view(0, (Span(slot, 0, 1, 0),))
    assert view.aged is not None
    floats, codes = view.tables[0], view.aged.tables[0]
    return (
        {*range(len(view.aged.pinned[0])), *(floats.first + i for i in range(len(floats.blocks)))},
        {codes.first + i for i in range(len(codes.blocks))},
    )


def seen_as_floats(kv: KVType, pos: int) -> set[int]:
    """Blocks that a query at `pos` sees in float16."""
    n_pinned, n_recent = -(-kv.sinks // 64), -(-kv.window // 64)
    return {b for b in range(pos // 64 + 1) if b < n_pinned or pos // 64 - b <= n_recent}


@pytest.mark.parametrize(("window", "sinks"), [(128, 64), (0, 0), (1, 1), (64, 65), (65, 128)])
def test_window_and_sinks_are_rounded_up_to_whole_blocks(window: int, sinks: int) -> None:
    kv = KVType("q4_0", window, sinks)
    assert kv.n_recent * 64 >= window > (kv.n_recent - 1) * 64
    assert kv.n_pinned * 64 >= sinks > (kv.n_pinned - 1) * 64


@pytest.mark.parametrize("kv", TYPES, ids=str)
@pytest.mark.parametrize("step", [1, 63, 64, 200])
def test_both_forms_are_held_where_a_query_or_a_truncation_by_64_may_want_them(
    kv: KVType, step: int
) -> None:
    for n_pos in (*range(1, 700, 37), 640, 641, 704):
        floats, codes = forms(fed(kv, n_pos, step))
        begun = set(range(-(-n_pos // 64)))
        wanted = seen_as_floats(kv, max(0, n_pos - 64)) | seen_as_floats(kv, n_pos - 1)
        assert floats == wanted & begun
        assert codes == begun - seen_as_floats(kv, n_pos - 1)


@pytest.mark.parametrize("kv", TYPES, ids=str)
def test_a_step_holds_the_floats_of_all_its_blocks_and_the_codes_its_last_query_sees(
    kv: KVType,
) -> None:
    held = fed(kv, 300)
    held.reserve(0, 900)
    floats, codes = forms(held)
    assert floats >= set(range(300 // 64, 15)) | seen_as_floats(kv, 300)
    assert codes == set(range(15)) - seen_as_floats(kv, 899)
    aged = held.view(0, (Span(0, 0, 600, 300),)).aged
    assert aged is not None
    assert aged.n_new == (len(codes - forms(fed(kv, 300))[1]),)


@pytest.mark.parametrize("name", ["q8_0", "q4_0"])
def test_4096_tokens_take_the_bytes_of_their_codes_and_of_the_windows(name: str) -> None:
    """In steps of 512 the floats are those of one step, of the window with its slack, and the pin.

    Pools grow by at most half, so what is resident may be half as much again.
    """
    kv = fed(KVType(name), 4096, step=512)  # type: ignore[arg-type]
    assert (kv.n_block_aged, kv.n_block_used) == (64 - 4, 1 + 3)
    n_codes = 60 * CODE_BLOCK[name]
    floats = (1 + 3 + 8) * F16_BLOCK
    assert n_codes + floats <= kv.n_bytes <= 1.5 * (n_codes + floats)
    assert kv.n_bytes < (0.85 if name == "q8_0" else 0.6) * 64 * F16_BLOCK


def test_floats_of_a_long_decode_are_a_handful_of_blocks() -> None:
    kv = fed(KVType("q4_0"), 4096, step=1)
    assert kv.n_block_used == 4
    assert kv.n_bytes <= 6 * F16_BLOCK + 1.5 * 60 * CODE_BLOCK["q4_0"]


def test_freed_forms_serve_other_sequences_before_the_pools_grow() -> None:
    kv = fed(KVType("q8_0"), 640, step=640)
    n_bytes = kv.n_bytes
    kv.reserve(1, 64 * 3)
    assert kv.n_bytes == n_bytes
    kv.clear(0)
    kv.clear(1)
    assert (kv.n_block_used, kv.n_block_aged) == (0, 0)
    kv.reserve(3, 640)
    assert kv.n_bytes == n_bytes
    assert forms(kv, 3) == (set(range(10)), set(range(1, 7)))


@pytest.mark.parametrize("kv", TYPES, ids=str)
def test_last_64_tokens_can_always_be_dropped_and_fed_again(kv: KVType) -> None:
    for n_pos in range(64, 700, 9):
        held = fed(kv, n_pos, step=100)
        held.check_truncate(0, n_pos - 64)
        held.truncate(0, n_pos - 64)
        floats, codes = forms(held)
        kept = set(range(-(-(n_pos - 64) // 64)))
        wanted = seen_as_floats(kv, n_pos - 64)
        assert floats == kept & (wanted | floats)
        assert floats >= kept & wanted
        assert codes == kept - wanted
        held.reserve(0, n_pos + 200)
        held.forget_unseen(0, n_pos + 200)
        assert forms(held)[1] == forms(fed(kv, n_pos + 200))[1]


def test_truncation_to_where_floats_are_gone_is_refused_with_the_nearest_length() -> None:
    kv = fed(KVType("q4_0"), 700)
    before = forms(kv)
    assert before[0] == {0, 7, 8, 9, 10}
    for n_pos in (575, 65):
        with pytest.raises(RequestError) as caught:
            kv.check_truncate(0, n_pos)
        assert str(caught.value) == (
            f"slot 0: cannot truncate to {n_pos} tokens: keys before 448 are quantised "
            "(nearest: 576)"
        )
    assert forms(kv) == before
    kv.check_truncate(0, 576)
    kv.truncate(0, 576)
    assert forms(kv) == ({0, 7, 8}, {1, 2, 3, 4, 5, 6})


@pytest.mark.parametrize("n_pos", [64, 63, 1, 0])
def test_truncation_into_the_pinned_block_is_never_refused(n_pos: int) -> None:
    kv = fed(KVType("q4_0"), 700)
    kv.check_truncate(0, n_pos)
    kv.truncate(0, n_pos)
    assert forms(kv) == (set(range(-(-n_pos // 64))), set())
    kv.reserve(0, 700)
    kv.forget_unseen(0, 700)
    assert forms(kv) == forms(fed(KVType("q4_0"), 700))


def test_layers_with_a_sliding_window_never_age() -> None:
    kv, plain = paged(KVType("q4_0"), 128), paged(KVType("f16"), 128)
    for held in (kv, plain):
        for end in range(50, 900, 50):
            held.reserve(0, end)
            held.forget_unseen(0, end)
    view = kv.view(0, (Span(0, 0, 1, 850),))
    assert view.aged is None
    assert view.k.dtype == "float16"
    assert (kv.n_bytes, kv.table(0).first) == (plain.n_bytes, plain.table(0).first)


@pytest.mark.parametrize("name", ["q8_0", "q4_0"])
def test_heads_that_no_group_of_32_divides_stay_float16_with_a_note(name: str) -> None:
    kv = KVType(name)  # type: ignore[arg-type]
    layers = [AttentionState(2, 20), AttentionState(2, 20, 100), AttentionState(2, 64)]
    cache = Cache(layers, n_slot=1, n_ctx=900, kv=kv)
    batch = Batch.pack([(cache.open(), 0, range(700))], all_logits=False)
    cache.begin(batch)
    assert [cache.kv(i, batch).aged is None for i in range(3)] == [True, True, False]
    assert [cache.kv(i, batch).k.dtype for i in range(3)] == ["float16"] * 3
    assert cache.notes == (
        f"kv {name}: heads of 20 stay f16; only a multiple of 32 can be quantised",
    )
    assert Cache(layers, n_slot=1, n_ctx=9, kv=KVType("f16")).notes == ()
