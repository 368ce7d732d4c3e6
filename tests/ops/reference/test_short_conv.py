"""The short convolution against a loop over taps, with its tail across cuts, borders and slots.

Tolerance 1e-6 of the largest output: at most five products, a sum and a sigmoid.
"""

import numpy as np
import pytest

from junto.ops.reference import Reference
from junto.ops.views import F32, Span
from tests.ops.nearness import SIZES, assert_near, normal
from tests.ops.reference.anchored_slots import AnchoredSlots
from tests.ops.reference.recurrence import convolution

ROUNDINGS = 1e-6
N_CHANNEL = 2 * 3 * 5 + 6 * 7


def slots(n_tap: int) -> AnchoredSlots:
    return AnchoredSlots(3, 6, 5, 7, n_tap=n_tap)


def step(storage: AnchoredSlots, weight: F32, *parts: tuple[int, int, F32]) -> list[F32]:
    """One ragged batch of (slot, position, inputs) -> the output of each part."""
    spans, row = [], 0
    for slot, pos, x in parts:
        spans.append(Span(slot, row, len(x), pos))
        row += len(x)
    x = np.concatenate([part[2] for part in parts])
    y = Reference().short_conv(x, weight, storage.view(tuple(spans)))
    storage.commit(tuple(spans))
    return [y[span.rows] for span in spans]


@pytest.mark.parametrize("n_tok", SIZES)
@pytest.mark.parametrize("n_tap", [3, 4])
def test_convolution_is_causal_with_zeros_before_the_start(n_tok: int, n_tap: int) -> None:
    x, weight = normal(n_tok, n_tok, N_CHANNEL), normal(n_tap, N_CHANNEL, n_tap)
    y = step(slots(n_tap), weight, (0, 0, x))[0]
    assert_near(y, convolution(x, weight), ROUNDINGS)


@pytest.mark.parametrize("piece", [1, 2, 3, 63, 64, 65, 127, 129])
@pytest.mark.parametrize("n_tap", [2, 5])
def test_tail_reaches_over_any_cut(piece: int, n_tap: int) -> None:
    """One token at a time crosses each border of 64 with its tail on the far side."""
    x, weight, storage = normal(1, 200, N_CHANNEL), normal(2, N_CHANNEL, n_tap), slots(n_tap)
    starts = range(0, len(x), piece)
    y = np.concatenate([step(storage, weight, (1, i, x[i : i + piece]))[0] for i in starts])
    assert_near(y, convolution(x, weight), ROUNDINGS)


def test_ragged_batch_keeps_tails_apart() -> None:
    a, b, weight, storage = (
        normal(1, 66, N_CHANNEL),
        normal(2, 129, N_CHANNEL),
        normal(3, N_CHANNEL, 4),
        slots(4),
    )
    first = step(storage, weight, (2, 0, b[:128]), (0, 0, a[:1]))
    second = step(storage, weight, (2, 128, b[128:]), (0, 1, a[1:]))
    assert_near(np.concatenate([first[0], second[0]]), convolution(b, weight), ROUNDINGS)
    assert_near(np.concatenate([first[1], second[1]]), convolution(a, weight), ROUNDINGS)


@pytest.mark.parametrize(
    ("n_before", "n_kept"), [(63, 1), (64, 0), (100, 65), (128, 64), (129, 128)]
)
def test_dropped_tokens_leave_no_trace(n_before: int, n_kept: int) -> None:
    x, other, weight = (
        normal(1, n_before, N_CHANNEL),
        normal(2, 90, N_CHANNEL),
        normal(3, N_CHANNEL, 4),
    )
    storage = slots(4)
    step(storage, weight, (0, 0, x))
    y = step(storage, weight, (0, n_kept, other))[0]
    expected = convolution(np.concatenate([x[:n_kept], other]), weight)[n_kept:]
    assert_near(y, expected, ROUNDINGS)


def test_cleared_slot_has_no_tail() -> None:
    x, weight, storage = normal(1, 70, N_CHANNEL), normal(2, N_CHANNEL, 4), slots(4)
    step(storage, weight, (3, 0, normal(3, 70, N_CHANNEL)))
    storage.clear(3)
    assert_near(step(storage, weight, (3, 0, x))[0], convolution(x, weight), ROUNDINGS)


def test_conv_and_delta_rule_fold_the_same_step_each_for_itself() -> None:
    """Both read the anchors of the step's begin; neither moves them for the other."""
    storage, weight = slots(4), normal(1, N_CHANNEL, 4)
    view = storage.view((Span(0, 0, 130, 0),))
    Reference().short_conv(normal(2, 130, N_CHANNEL), weight, view)
    q, k = normal(3, 130, 3, 5), normal(4, 130, 3, 5)
    decay, beta = -np.abs(normal(5, 130, 6)), np.full((130, 6), 0.5, np.float32)
    Reference().gated_delta_rule(q, k, normal(6, 130, 6, 7), decay, beta, view)
    assert view.anchors == (0,)
    assert np.isfinite(storage.conv[0, : 3 + 2]).all()
    assert np.abs(storage.state[0]).max() > 0
