"""Anchors of DeltaNet slots, their bytes, and the truncations they allow."""

import numpy as np
import pytest

from junto.cache.delta_state import DeltaStates
from junto.errors import RequestError
from junto.ops.views import Span

N_LAYER, N_HEAD_K, N_HEAD_V, HEAD_DIM, N_TAP, N_SLOT = 2, 3, 6, 5, 4, 7
N_CHANNEL = (2 * N_HEAD_K + N_HEAD_V) * HEAD_DIM


def states() -> DeltaStates:
    return DeltaStates(N_LAYER, N_HEAD_K, N_HEAD_V, HEAD_DIM, N_TAP, N_SLOT)


def fed(*pieces: int, slot: int = 0) -> DeltaStates:
    held, pos = states(), 0
    for n_tok in pieces:
        held.commit(Span(slot, 0, n_tok, pos))
        pos += n_tok
    return held


@pytest.mark.parametrize(
    ("n_tok", "anchor"),
    [(1, 0), (63, 0), (64, 0), (65, 64), (127, 64), (128, 64), (129, 128), (130, 128), (700, 640)],
)
def test_anchor_lies_1_to_64_tokens_back_however_tokens_are_cut(n_tok: int, anchor: int) -> None:
    assert fed(n_tok).anchor(0) == anchor
    assert fed(*[1] * n_tok).anchor(0) == anchor
    assert fed(*[3] * (n_tok // 3), *[1] * (n_tok % 3)).anchor(0) == anchor


def test_anchor_of_one_slot_is_not_anothers() -> None:
    held = fed(129, slot=4)
    assert [held.anchor(slot) for slot in range(N_SLOT)] == [0, 0, 0, 0, 128, 0, 0]
    spans = (Span(4, 0, 1, 129), Span(1, 1, 2, 0))
    assert held.view(1, spans).anchors == (128, 0)


def test_view_has_the_shapes_of_its_layer_and_begins_at_zero() -> None:
    held = states()
    view = held.view(1, (Span(0, 0, 1, 0),))
    assert view.state.shape == (N_SLOT, N_HEAD_V, HEAD_DIM, HEAD_DIM)
    assert view.k.shape == (N_SLOT, 64, N_HEAD_K, HEAD_DIM)
    assert view.u.shape == (N_SLOT, 64, N_HEAD_V, HEAD_DIM)
    assert view.decay.shape == (N_SLOT, 64, N_HEAD_V)
    assert view.conv.shape == (N_SLOT, N_TAP - 1 + 64, N_CHANNEL)
    assert not view.state.any()
    assert not view.conv.any()
    assert not np.shares_memory(view.state, held.view(0, ()).state)


def test_bytes_are_those_of_states_lists_and_tails() -> None:
    state = N_HEAD_V * HEAD_DIM * HEAD_DIM
    entries = 64 * (N_HEAD_K * HEAD_DIM + N_HEAD_V * HEAD_DIM + N_HEAD_V)
    tail = (N_TAP - 1 + 64) * N_CHANNEL
    assert states().n_bytes == 4 * N_LAYER * N_SLOT * (state + entries + tail)


def test_cleared_slot_is_zero_again_in_every_layer_and_others_are_kept() -> None:
    held = fed(129, slot=2)
    for layer in range(N_LAYER):
        view = held.view(layer, ())
        view.state[...] = view.conv[...] = 9
    held.clear(2)
    assert held.anchor(2) == 0
    for layer in range(N_LAYER):
        view = held.view(layer, ())
        assert not view.state[2].any()
        assert not view.conv[2].any()
        assert (view.state[[0, 1, 3, 4, 5, 6]] == 9).all()


@pytest.mark.parametrize("n_pos", [64, 65, 127])
def test_truncation_down_to_the_anchor_is_allowed(n_pos: int) -> None:
    held = fed(128)
    held.check_truncate(0, n_pos)
    assert held.anchor(0) == 64


@pytest.mark.parametrize(
    ("n_tok", "n_pos", "anchor"), [(128, 63, 64), (129, 127, 128), (700, 0, 640)]
)
def test_truncation_before_the_anchor_is_refused(n_tok: int, n_pos: int, anchor: int) -> None:
    held = fed(n_tok, slot=3)
    with pytest.raises(RequestError) as caught:
        held.check_truncate(3, n_pos)
    assert str(caught.value) == (
        f"slot 3: cannot truncate to {n_pos} tokens: recurrent state at {anchor} keeps no earlier "
        f"snapshot (nearest: {anchor})"
    )
