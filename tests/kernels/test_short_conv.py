"""The convolution kernel: near a loop over taps, and the same bits however the work is shared.

Tolerance 1e-6 of the largest output: at most five products, a sum and a sigmoid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from junto import _kernels
from junto.ops.reference import Reference
from junto.ops.views import F32, DeltaView, Span
from tests.kernels.span_table import span_table
from tests.ops.nearness import assert_near, normal
from tests.ops.reference.anchored_slots import AnchoredSlots
from tests.ops.reference.recurrence import convolution

ROUNDINGS = 1e-6
Pools = dict[int, _kernels.ThreadPool]
S_V = {4: 1, 16: 7, 72: 35, 1032: 515}
CHANNELS = list(S_V)
channels = pytest.mark.parametrize("n_channel", CHANNELS)


def slots(n_channel: int, n_tap: int = 4) -> AnchoredSlots:
    """Slots of one key head of size 1: n_channel = 2 + 2 * S_v."""
    return AnchoredSlots(1, 2, 1, S_V[n_channel], n_tap=n_tap)


@dataclass(frozen=True, slots=True)
class Kernel:
    level: str
    pool: _kernels.ThreadPool

    def run(self, x: F32, weight: F32, view: DeltaView) -> F32:
        y = np.full(x.shape, np.nan, np.float32)
        _kernels.short_conv(self.level, self.pool, x, weight, view.conv, span_table(view), y)
        return y

    def step(self, storage: AnchoredSlots, weight: F32, *parts: tuple[int, int, F32]) -> list[F32]:
        """One ragged batch of (slot, position, inputs) -> the output of each part."""
        spans, row = [], 0
        for slot, pos, x in parts:
            spans.append(Span(slot, row, len(x), pos))
            row += len(x)
        x = np.concatenate([part[2] for part in parts])
        y = self.run(x, weight, storage.view(tuple(spans)))
        storage.commit(tuple(spans))
        return [y[span.rows] for span in spans]

    def in_pieces(
        self, storage: AnchoredSlots, weight: F32, x: F32, piece: int, pos: int = 0
    ) -> F32:
        starts = range(0, len(x), piece)
        cuts = [(1, pos + i, x[i : i + piece]) for i in starts]
        return np.concatenate([self.step(storage, weight, cut)[0] for cut in cuts])


@pytest.fixture
def kernel(level: str, pools_of_threads: Pools) -> Kernel:
    return Kernel(level, pools_of_threads[2])


@channels
@pytest.mark.parametrize("n_tok", [1, 2, 3, 63, 64, 65, 127, 128, 129, 200])
def test_convolution_is_causal_with_zeros_before_the_start(
    kernel: Kernel, n_channel: int, n_tok: int
) -> None:
    x, weight = normal(n_tok, n_tok, n_channel), normal(1, n_channel, 4)
    y = kernel.step(slots(n_channel), weight, (0, 0, x))[0]
    assert_near(y, convolution(x, weight), ROUNDINGS)


@pytest.mark.parametrize("n_tap", [1, 2, 3, 5, 70])
@pytest.mark.parametrize("piece", [1, 2, 64, 65, 200])
def test_any_number_of_taps(kernel: Kernel, n_tap: int, piece: int) -> None:
    """Also more than a chunk holds, where the tail is moved onto itself."""
    x, weight = normal(1, 200, 72), normal(2, 72, n_tap) / np.float32(n_tap)
    y = kernel.in_pieces(slots(72, n_tap), weight, x, piece)
    assert_near(y, convolution(x, weight), ROUNDINGS * max(1, n_tap // 5))


@channels
def test_any_cut_gives_the_same_bits(kernel: Kernel, n_channel: int) -> None:
    x, weight = normal(1, 200, n_channel), normal(2, n_channel, 4)
    whole = slots(n_channel)
    expected = kernel.step(whole, weight, (1, 0, x))[0]
    for piece in (1, 2, 3, 63, 64, 65, 127, 129):
        cut = slots(n_channel)
        np.testing.assert_array_equal(kernel.in_pieces(cut, weight, x, piece), expected)
        np.testing.assert_array_equal(cut.conv[1, : 3 + 8], whole.conv[1, : 3 + 8])


@channels
def test_a_batch_gives_the_bits_of_each_sequence_alone(kernel: Kernel, n_channel: int) -> None:
    weight = normal(9, n_channel, 4)
    parts = [(2, 0, normal(1, 65, n_channel)), (0, 0, normal(2, 1, n_channel))]
    parts.append((3, 0, normal(3, 131, n_channel)))
    for part, y in zip(parts, kernel.step(slots(n_channel), weight, *parts), strict=True):
        np.testing.assert_array_equal(kernel.step(slots(n_channel), weight, part)[0], y)


@channels
def test_any_number_of_threads_gives_the_same_bits(
    level: str, pools_of_threads: Pools, n_channel: int
) -> None:
    x, weight = normal(1, 150, n_channel), normal(2, n_channel, 4)
    outputs = [
        Kernel(level, pool).step(slots(n_channel), weight, (0, 0, x))[0]
        for pool in pools_of_threads.values()
    ]
    for y in outputs:
        np.testing.assert_array_equal(y, outputs[0])


def test_history_is_that_of_the_reference(kernel: Kernel) -> None:
    """Ragged spans with anchors of their own, across their borders and not."""
    weight, ours, theirs = normal(1, 72, 4), slots(72), slots(72)
    for storage in (ours, theirs):
        storage.conv[...] = normal(5, *storage.conv.shape)
        storage.anchors[:] = [0, 192, 64, 0]
    spans = (Span(3, 0, 70, 0), Span(1, 70, 3, 256), Span(2, 73, 9, 70), Span(0, 82, 129, 63))
    x = normal(6, 211, 72)
    expected = Reference().short_conv(x, weight, theirs.view(spans))
    assert_near(kernel.run(x, weight, ours.view(spans)), expected, ROUNDINGS)
    for slot, n_entry in ((3, 6), (1, 3), (2, 15), (0, 64)):
        np.testing.assert_array_equal(
            ours.conv[slot, : 3 + n_entry], theirs.conv[slot, : 3 + n_entry]
        )


@pytest.mark.parametrize(
    ("n_before", "n_kept"), [(63, 1), (64, 0), (100, 65), (128, 64), (129, 128)]
)
def test_dropped_tokens_leave_no_trace(kernel: Kernel, n_before: int, n_kept: int) -> None:
    x, other, weight = normal(1, n_before, 72), normal(2, 90, 72), normal(3, 72, 4)
    rewound, fresh = slots(72), slots(72)
    kernel.step(rewound, weight, (1, 0, x))
    if n_kept:
        kernel.step(fresh, weight, (1, 0, x[:n_kept]))
    y = kernel.in_pieces(rewound, weight, other, 45, pos=n_kept)
    np.testing.assert_array_equal(y, kernel.in_pieces(fresh, weight, other, 45, pos=n_kept))


def test_order_of_the_weights_in_memory_does_not_matter(kernel: Kernel) -> None:
    x, weight = normal(1, 70, 72), normal(2, 72, 4)
    by_tap = np.ascontiguousarray(weight.T).T
    wide = np.concatenate([x, x], axis=1)[:, 72:]
    expected = kernel.step(slots(72), weight, (0, 0, x))[0]
    np.testing.assert_array_equal(kernel.step(slots(72), by_tap, (0, 0, wide))[0], expected)


def test_far_inputs_give_zero_or_themselves(kernel: Kernel) -> None:
    x = np.tile(np.array([-1e4, -200, -88, 0, 88, 200, 1e4, 1], np.float32), (3, 9))
    y = kernel.step(slots(72, 1), np.ones((72, 1), np.float32), (0, 0, x))[0]
    expected = x / (1 + np.exp(-np.maximum(x.astype(np.float64), -700)))
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-30)


Arguments = dict[str, Any]


def with_spans(*rows: tuple[int, ...]) -> Callable[[Arguments], Any]:
    return lambda a: a.update(spans=np.asarray(rows, np.int64))


def without_last(name: str, axis: int) -> Callable[[Arguments], Any]:
    return lambda a: a.update({name: np.delete(a[name], -1, axis)})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (with_spans((0, 0, 4, 0, 0)), r"rows of spans is 4, rows of the batch is 5"),
        (with_spans((7, 0, 5, 0, 0)), r"span 0 is in slot 7"),
        (with_spans((0, 0, 5, 65, 0)), r"position 65 with its anchor at 0"),
        (without_last("x", 1), r"rows of weight is 72, columns of x is 71"),
        (without_last("x", 0), r"rows of y is 5, rows of x is 4"),
        (without_last("weight", 1), r"rows of conv is 67, n_tap - 1 \+ 64 is 66"),
        (without_last("conv", 2), r"columns of conv is 71"),
        (without_last("y", 1), r"columns of y is 71"),
        (lambda a: a.update(weight=a["weight"][:, :0]), r"n_tap is 0"),
        (lambda a: a.update(x=a["x"].repeat(2, 1)[:, ::2]), r"row of x must lie together"),
        (lambda a: a.update(level="sse9"), r"level 'sse9' does not run here"),
    ],
)
def test_what_does_not_fit_is_refused(
    level: str, pools_of_threads: Pools, spoil: Callable[[Arguments], Any], message: str
) -> None:
    arguments: Arguments = {
        "level": level,
        "pool": pools_of_threads[1],
        "x": normal(1, 5, 72),
        "weight": normal(2, 72, 4),
        "conv": slots(72).conv,
        "spans": np.asarray([(0, 0, 5, 0, 0)], np.int64),
        "y": np.zeros((5, 72), np.float32),
    }
    _kernels.short_conv(**arguments)
    spoil(arguments)
    with pytest.raises(ValueError, match=message) as refusal:
        _kernels.short_conv(**arguments)
    assert "\n" not in str(refusal.value)
