"""Ops through the cache: what a sequence was fed counts, and nothing else does.

Every scenario ends in the outputs of a sequence, compared with the same sequence fed alone, at
once, to a fresh cache. Tolerance 5e-6 of the largest output: float32 sums in another order.
"""

import numpy as np
import pytest

from junto.cache import AttentionState, Cache, DeltaState
from junto.ops.reference import Reference
from junto.ops.reference.elementwise import sigmoid
from junto.ops.views import F32, Batch
from tests.ops.nearness import assert_near, normal

ROUNDINGS = 5e-6
N_HEAD, N_HEAD_KV, HEAD_DIM = 6, 2, 5
N_HEAD_K, N_HEAD_V, S, N_TAP = 3, 9, 7, 4
N_CHANNEL = (2 * N_HEAD_K + N_HEAD_V) * S
WINDOW = 100
LAYERS = (
    AttentionState(N_HEAD_KV, HEAD_DIM),
    AttentionState(N_HEAD_KV, HEAD_DIM, WINDOW),
    DeltaState(N_HEAD_K, N_HEAD_V, S, N_TAP),
)
WIDTH = N_HEAD * HEAD_DIM + N_CHANNEL + 2 * N_HEAD_V
TAPS = normal(99, N_CHANNEL, N_TAP)


def make() -> Cache:
    return Cache(LAYERS, n_slot=3, n_ctx=2000)


def step(cache: Cache, *work: tuple[int, F32]) -> list[F32]:
    """Feed rows [n_tok, WIDTH] to slots; three layers side by side look at them."""
    parts = [(slot, cache.length(slot), range(len(x))) for slot, x in work]
    batch = Batch.pack(parts, all_logits=False)
    cache.begin(batch)
    y = outputs(cache, batch, np.concatenate([x for _, x in work]))
    cache.commit(batch)
    return [y[span.rows] for span in batch.spans]


def outputs(cache: Cache, batch: Batch, x: F32) -> F32:
    ops, n_tok = Reference(), len(x)
    heads, qkv, decay, beta = np.split(
        x, np.cumsum([N_HEAD * HEAD_DIM, N_CHANNEL, N_HEAD_V]), axis=1
    )
    q = heads.reshape(n_tok, N_HEAD, HEAD_DIM)
    k, v = q[:, ::3], -q[:, 1::3]
    full = ops.attention(q, k, v, cache.kv(0, batch), scale=0.5)
    near = ops.attention(q, k, v, cache.kv(1, batch), scale=0.5, window=WINDOW)
    view = cache.delta(2, batch)
    mixed = ops.short_conv(qkv, TAPS, view)
    parts = np.split(mixed, np.cumsum([N_HEAD_K * S, N_HEAD_K * S]), axis=1)
    dq, dk, dv = (part.reshape(n_tok, -1, S) for part in parts)
    recurrent = ops.gated_delta_rule(dq, dk, dv, -np.abs(decay), sigmoid(beta), view)
    return np.concatenate([a.reshape(n_tok, -1) for a in (full, near, recurrent)], axis=1)


def alone(x: F32) -> F32:
    cache = make()
    return step(cache, (cache.open(), x))[0]


def rows(seed: int, n_tok: int) -> F32:
    return normal(seed, n_tok, WIDTH)


def in_pieces(cache: Cache, slot: int, x: F32, piece: int) -> F32:
    starts = range(0, len(x), piece)
    return np.concatenate([step(cache, (slot, x[i : i + piece]))[0] for i in starts])


@pytest.mark.parametrize("piece", [1, 3, 63, 64, 65, 128, 130])
def test_any_cut_equals_the_whole(piece: int) -> None:
    """Long enough that the window frees blocks between the steps."""
    cache, x = make(), rows(1, 330)
    assert_near(in_pieces(cache, cache.open(), x, piece), alone(x), ROUNDINGS)
    assert cache.kv_groups[1].table(0).first == 2


def test_batch_equals_each_sequence_alone() -> None:
    cache, a, b, c = make(), rows(1, 290), rows(2, 129), rows(3, 66)
    slots = [cache.open() for _ in range(3)]
    first = step(cache, (slots[1], b[:64]), (slots[0], a[:288]), (slots[2], c[:1]))
    second = step(cache, (slots[0], a[288:289]), (slots[2], c[1:]), (slots[1], b[64:]))
    third = step(cache, (slots[0], a[289:]))
    assert_near(np.concatenate([first[1], second[0], third[0]]), alone(a), ROUNDINGS)
    assert_near(np.concatenate([first[0], second[2]]), alone(b), ROUNDINGS)
    assert_near(np.concatenate([first[2], second[1]]), alone(c), ROUNDINGS)


def test_reused_slot_and_blocks_equal_fresh_ones() -> None:
    cache, x = make(), rows(2, 200)
    for seed in (1, 3):
        slot = cache.open()
        step(cache, (slot, rows(seed, 300)))
        cache.close(slot)
    np.testing.assert_array_equal(step(cache, (cache.open(), x))[0], alone(x))


def test_step_that_failed_is_forgotten_once_its_slot_is_closed() -> None:
    cache, x = make(), rows(2, 200)
    batch = Batch.pack([(cache.open(), 0, range(150))], all_logits=False)
    cache.begin(batch)
    outputs(cache, batch, rows(1, 150))
    cache.close(0)
    np.testing.assert_array_equal(step(cache, (cache.open(), x))[0], alone(x))


@pytest.mark.parametrize(
    ("n_fed", "n_kept"), [(64, 0), (100, 65), (128, 64), (129, 128), (320, 256), (321, 320)]
)
@pytest.mark.parametrize("piece", [1, 200])
def test_truncated_tokens_were_never_there(n_fed: int, n_kept: int, piece: int) -> None:
    """A neighbour takes the freed blocks before the sequence goes on with other tokens."""
    cache, old, new = make(), rows(1, n_fed), rows(2, 140)
    slot, neighbour = cache.open(), cache.open()
    in_pieces(cache, slot, old, 200)
    cache.truncate(slot, n_kept)
    step(cache, (neighbour, rows(3, 130)))
    y = in_pieces(cache, slot, new, piece)
    assert_near(y, alone(np.concatenate([old[:n_kept], new]))[n_kept:], ROUNDINGS)


def test_truncation_may_be_repeated_as_drafts_do() -> None:
    """Draft four, keep one, again and again, across the borders of chunks and blocks."""
    cache, x, slot = make(), rows(1, 150), 0
    cache.open()
    step(cache, (slot, x[:60]))
    kept = []
    for pos in range(60, 150):
        n_draft = min(4, 64 - pos % 64)  # none beyond a border, which would fold the list
        draft = np.concatenate([x[pos : pos + 1], rows(pos, 3)])[:n_draft]
        kept.append(step(cache, (slot, draft))[0][:1])
        cache.truncate(slot, pos + 1)
    assert_near(np.concatenate(kept), alone(x)[60:], ROUNDINGS)
