"""Anchored chunks equal the plain recurrence, however tokens are cut, batched or taken back.

Tolerance 5e-6 of the largest output: up to 64 corrections build on each other in float32, and
each rounds sums of up to 64 terms to 6e-8.
"""

from dataclasses import replace

import numpy as np
import pytest

from junto.ops.reference import Reference
from junto.ops.views import F32, Span
from tests.ops.nearness import SIZES, assert_near, normal
from tests.ops.reference.anchored_slots import AnchoredSlots
from tests.ops.reference.recurrence import Tokens, random_tokens, recurrence

ROUNDINGS = 5e-6
N_HEAD_K, S_K, S_V = 3, 5, 7


def tokens(seed: int, n_tok: int, ratio: int = 2) -> Tokens:
    return random_tokens(seed, n_tok, N_HEAD_K, ratio, S_K, S_V)


def slots(ratio: int = 2) -> AnchoredSlots:
    return AnchoredSlots(N_HEAD_K, N_HEAD_K * ratio, S_K, S_V)


def joined(*parts: Tokens) -> Tokens:
    columns = zip(*(part.arrays for part in parts), strict=True)
    return Tokens(*(np.concatenate(column) for column in columns))


def step(storage: AnchoredSlots, *parts: tuple[int, int, Tokens]) -> list[F32]:
    """One ragged batch of (slot, position, tokens) -> the output of each part."""
    spans, row = [], 0
    for slot, pos, x in parts:
        spans.append(Span(slot, row, x.n_tok, pos))
        row += x.n_tok
    x = joined(*(part[2] for part in parts))
    y = Reference().gated_delta_rule(*x.arrays, storage.view(tuple(spans)))
    storage.commit(tuple(spans))
    return [y[span.rows] for span in spans]


def in_pieces(storage: AnchoredSlots, x: Tokens, piece: int, slot: int = 0, pos: int = 0) -> F32:
    starts = range(0, x.n_tok, piece)
    return np.concatenate([step(storage, (slot, pos + i, x[i : i + piece]))[0] for i in starts])


@pytest.mark.parametrize("n_tok", SIZES)
def test_chunks_equal_the_recurrence(n_tok: int) -> None:
    x = tokens(n_tok, n_tok)
    assert_near(step(slots(), (0, 0, x))[0], recurrence(x), ROUNDINGS)


@pytest.mark.parametrize("ratio", [1, 2, 3, 4])
def test_value_head_h_reads_key_head_h_modulo_their_number(ratio: int) -> None:
    x = tokens(ratio, 130, ratio)
    assert_near(step(slots(ratio), (0, 0, x))[0], recurrence(x), ROUNDINGS)


@pytest.mark.parametrize("piece", [1, 3, 63, 64, 65, 127, 128, 129])
def test_any_cut_equals_the_recurrence(piece: int) -> None:
    x = tokens(1, 200)
    assert_near(in_pieces(slots(), x, piece), recurrence(x), ROUNDINGS)


def test_ragged_batch_keeps_sequences_apart() -> None:
    storage = slots()
    a, b, c = tokens(1, 130), tokens(2, 66), tokens(3, 195)
    for cut_a, cut_b, cut_c in ((0, 0, 0), (64, 1, 65), (65, 65, 130)):
        n_a, n_b, n_c = {0: (64, 1, 65), 64: (1, 64, 65), 65: (65, 1, 65)}[cut_a]
        y_b, y_a, y_c = step(
            storage,
            (3, cut_b, b[cut_b : cut_b + n_b]),
            (0, cut_a, a[cut_a : cut_a + n_a]),
            (2, cut_c, c[cut_c : cut_c + n_c]),
        )
        assert_near(y_a, recurrence(a)[cut_a : cut_a + n_a], ROUNDINGS)
        assert_near(y_b, recurrence(b)[cut_b : cut_b + n_b], ROUNDINGS)
        assert_near(y_c, recurrence(c)[cut_c : cut_c + n_c], ROUNDINGS)


@pytest.mark.parametrize("piece", [1, 64, 65, 100])
def test_start_at_an_anchor_with_a_state(piece: int) -> None:
    """As after a prefix is restored: position 192, and a state that is not zero."""
    storage, x = slots(), tokens(4, 100)
    storage.anchors[1] = 192
    storage.state[1] = normal(5, *storage.state.shape[1:])
    expected = recurrence(x, storage.state[1].astype(np.float64))
    assert_near(in_pieces(storage, x, piece, slot=1, pos=192), expected, ROUNDINGS)


@pytest.mark.parametrize("log_decay", [-1e-7, -1e-3, -20.0, -200.0])
def test_decays_near_one_and_near_zero(log_decay: float) -> None:
    x = tokens(6, 200)
    x = replace(x, decay=np.full_like(x.decay, log_decay))
    for piece in (1, 65, 200):
        assert_near(in_pieces(slots(), x, piece), recurrence(x), ROUNDINGS)


def test_one_total_decay_does_not_blur_the_gentle_ones_after_it() -> None:
    x = tokens(7, 130)
    decay = np.full_like(x.decay, -0.01)
    decay[[3, 70]] = -300
    x = replace(x, decay=decay)
    for piece in (1, 130):
        assert_near(in_pieces(slots(), x, piece), recurrence(x), ROUNDINGS)


def test_beta_of_zero_and_one() -> None:
    x = tokens(8, 130)
    beta = np.zeros_like(x.beta)
    beta[::2, 1:] = 1
    x = replace(x, beta=beta)
    y = step(slots(), (0, 0, x))[0]
    assert_near(y, recurrence(x), ROUNDINGS)
    np.testing.assert_array_equal(y[:, 0], 0)


@pytest.mark.parametrize(
    ("n_before", "n_kept"), [(63, 1), (64, 0), (100, 65), (128, 64), (129, 128)]
)
def test_dropped_tokens_leave_no_trace(n_before: int, n_kept: int) -> None:
    """Down to the anchor, also from a list that is full; then across the next border."""
    rewound, fresh, x, other = slots(), slots(), tokens(9, n_before), tokens(10, 90)
    step(rewound, (0, 0, x))
    if n_kept:
        step(fresh, (0, 0, x[:n_kept]))
    y = in_pieces(rewound, other, 45, pos=n_kept)
    assert_near(y, in_pieces(fresh, other, 45, pos=n_kept), ROUNDINGS)
    assert_near(y, recurrence(joined(x[:n_kept], other))[n_kept:], ROUNDINGS)


def test_cleared_slot_is_a_fresh_one() -> None:
    storage, x = slots(), tokens(12, 130)
    step(storage, (2, 0, tokens(11, 100)))
    storage.clear(2)
    np.testing.assert_array_equal(step(storage, (2, 0, x))[0], step(slots(), (2, 0, x))[0])


def test_other_slots_are_left_alone() -> None:
    storage = slots()
    step(storage, (1, 0, tokens(13, 70)))
    before = [a[1].copy() for a in (storage.state, storage.k, storage.u, storage.decay)]
    step(storage, (0, 0, tokens(14, 130)))
    after = [a[1] for a in (storage.state, storage.k, storage.u, storage.decay)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_zero_keys_and_queries_give_zero() -> None:
    x = tokens(15, 65)
    y = step(slots(), (0, 0, replace(x, q=np.zeros_like(x.q), k=np.zeros_like(x.k))))[0]
    np.testing.assert_array_equal(y, 0)


def test_delta_gates() -> None:
    alpha, beta = normal(1, 5, 3) * np.float32(20), normal(2, 5, 3) * np.float32(20)
    ssm_a, ssm_dt = -np.exp(normal(3, 3)), normal(4, 3)
    decay, gate = Reference().delta_gates(alpha, beta, ssm_a, ssm_dt)
    softplus = np.logaddexp(0, alpha.astype(np.float64) + ssm_dt)
    assert_near(decay, ssm_a * softplus, 1e-6)
    assert_near(gate, 1 / (1 + np.exp(-beta.astype(np.float64))), 1e-6)
    assert (decay <= 0).all()
