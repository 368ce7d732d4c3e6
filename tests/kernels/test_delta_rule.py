"""The delta-rule kernel: near the plain recurrence, and the same bits however the work is shared.

Tolerance 5e-6 of the largest output, as for the reference: up to 64 corrections build on each other
in float32, and each rounds sums of up to 64 terms to 6e-8.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from junto import _kernels
from junto.ops.reference import Reference
from junto.ops.views import F32, DeltaView, Span
from tests.kernels.span_table import span_table
from tests.ops.nearness import assert_near, normal
from tests.ops.reference.anchored_slots import AnchoredSlots
from tests.ops.reference.recurrence import Tokens, random_tokens, recurrence

ROUNDINGS = 5e-6
Pools = dict[int, _kernels.ThreadPool]


@dataclass(frozen=True, slots=True)
class Sizes:
    n_head_k: int
    ratio: int
    s_k: int
    s_v: int

    def tokens(self, seed: int, n_tok: int) -> Tokens:
        return random_tokens(seed, n_tok, self.n_head_k, self.ratio, self.s_k, self.s_v)

    def slots(self) -> AnchoredSlots:
        return AnchoredSlots(self.n_head_k, self.n_head_k * self.ratio, self.s_k, self.s_v)


SMALL = Sizes(3, 2, 20, 36)
SIZES = [
    pytest.param(Sizes(2, 3, 16, 16), id="one vector"),
    pytest.param(Sizes(3, 1, 20, 20), id="padded"),
    pytest.param(Sizes(2, 4, 5, 7), id="below a vector"),
    pytest.param(Sizes(3, 2, 48, 144), id="blocks and rests of lanes"),
    pytest.param(Sizes(1, 2, 128, 128), id="as in the 35B model"),
    pytest.param(Sizes(1, 1, 150, 32), id="rows beyond a block, padded keys"),
]
sizes = pytest.mark.parametrize("sizes", SIZES)


@dataclass(frozen=True, slots=True)
class Kernel:
    level: str
    pool: _kernels.ThreadPool

    def run(self, x: Tokens, view: DeltaView) -> F32:
        y = np.full_like(x.v, np.nan)
        _kernels.gated_delta_rule(
            self.level,
            self.pool,
            *x.arrays,
            view.state,
            view.k,
            view.u,
            view.decay,
            span_table(view),
            y,
        )
        return y

    def step(self, storage: AnchoredSlots, *parts: tuple[int, int, Tokens]) -> list[F32]:
        """One ragged batch of (slot, position, tokens) -> the output of each part."""
        spans, row = [], 0
        for slot, pos, x in parts:
            spans.append(Span(slot, row, x.n_tok, pos))
            row += x.n_tok
        y = self.run(joined(*(part[2] for part in parts)), storage.view(tuple(spans)))
        storage.commit(tuple(spans))
        return [y[span.rows] for span in spans]

    def in_pieces(
        self, storage: AnchoredSlots, x: Tokens, piece: int, slot: int = 0, pos: int = 0
    ) -> F32:
        starts = range(0, x.n_tok, piece)
        cuts = [(slot, pos + i, x[i : i + piece]) for i in starts]
        return np.concatenate([self.step(storage, cut)[0] for cut in cuts])


@pytest.fixture
def kernel(level: str, pools_of_threads: Pools) -> Kernel:
    return Kernel(level, pools_of_threads[2])


def joined(*parts: Tokens) -> Tokens:
    columns = zip(*(part.arrays for part in parts), strict=True)
    return Tokens(*(np.concatenate(column) for column in columns))


@sizes
@pytest.mark.parametrize("n_tok", [1, 2, 3, 63, 64, 65, 127, 128, 129, 200])
def test_chunks_equal_the_recurrence(kernel: Kernel, sizes: Sizes, n_tok: int) -> None:
    x = sizes.tokens(n_tok, n_tok)
    assert_near(kernel.step(sizes.slots(), (0, 0, x))[0], recurrence(x), ROUNDINGS)


@sizes
def test_state_and_lists_are_those_of_the_reference(kernel: Kernel, sizes: Sizes) -> None:
    """Ragged spans with anchors of their own, over a state that is not zero."""
    ours, theirs = sizes.slots(), sizes.slots()
    for storage in (ours, theirs):
        storage.state[...] = normal(5, *storage.state.shape)
        storage.anchors[:] = [0, 192, 64, 0]
    first = [
        (3, 0, sizes.tokens(1, 70)),
        (1, 192, sizes.tokens(2, 64)),
        (2, 64, sizes.tokens(3, 1)),
    ]
    second = [
        (1, 256, sizes.tokens(4, 1)),
        (2, 65, sizes.tokens(5, 130)),
        (3, 70, sizes.tokens(6, 9)),
    ]
    for parts in (first, second):
        rows = np.cumsum([0] + [part[2].n_tok for part in parts])
        spans = tuple(
            Span(slot, int(row), x.n_tok, pos)
            for (slot, pos, x), row in zip(parts, rows, strict=False)
        )
        x = joined(*(part[2] for part in parts))
        expected = Reference().gated_delta_rule(*x.arrays, theirs.view(spans))
        assert_near(kernel.run(x, ours.view(spans)), expected, ROUNDINGS)
        ours.commit(spans)
        theirs.commit(spans)
    assert_near(ours.state, theirs.state, ROUNDINGS)
    for slot, n_entry in ((1, 1), (2, 3), (3, 15)):
        for name in ("k", "u", "decay"):
            mine, other = (getattr(s, name)[slot, :n_entry] for s in (ours, theirs))
            assert_near(mine, other, ROUNDINGS)


@sizes
def test_any_cut_gives_the_same_bits(kernel: Kernel, sizes: Sizes) -> None:
    x, whole = sizes.tokens(1, 200), sizes.slots()
    expected = kernel.step(whole, (0, 0, x))[0]
    for piece in (1, 2, 3, 5, 63, 64, 65, 127, 129):
        cut = sizes.slots()
        np.testing.assert_array_equal(kernel.in_pieces(cut, x, piece), expected)
        np.testing.assert_array_equal(cut.state, whole.state)
        for name in ("k", "u", "decay"):
            np.testing.assert_array_equal(
                getattr(cut, name)[0, :8], getattr(whole, name)[0, :8], err_msg=name
            )


@sizes
def test_a_batch_gives_the_bits_of_each_sequence_alone(kernel: Kernel, sizes: Sizes) -> None:
    parts = [(2, 0, sizes.tokens(1, 65)), (0, 0, sizes.tokens(2, 1)), (3, 0, sizes.tokens(3, 131))]
    together = kernel.step(sizes.slots(), *parts)
    for part, y in zip(parts, together, strict=True):
        np.testing.assert_array_equal(kernel.step(sizes.slots(), part)[0], y)


@sizes
@pytest.mark.parametrize("n_tok", [1, 150])
def test_any_number_of_threads_gives_the_same_bits(
    level: str, pools_of_threads: Pools, sizes: Sizes, n_tok: int
) -> None:
    """Three threads also share a key head that two would not."""
    x = sizes.tokens(1, n_tok)
    storages = {n: sizes.slots() for n in pools_of_threads}
    outputs = [
        Kernel(level, pool).step(storages[n], (0, 0, x))[0] for n, pool in pools_of_threads.items()
    ]
    for n, y in zip(storages, outputs, strict=True):
        np.testing.assert_array_equal(y, outputs[0])
        np.testing.assert_array_equal(storages[n].state, storages[1].state)
        np.testing.assert_array_equal(storages[n].k[0], storages[1].k[0])
        np.testing.assert_array_equal(storages[n].u[0], storages[1].u[0])


@pytest.mark.parametrize(
    ("n_before", "n_kept"), [(63, 1), (64, 0), (100, 65), (128, 64), (129, 128)]
)
def test_dropped_tokens_leave_no_trace(kernel: Kernel, n_before: int, n_kept: int) -> None:
    rewound, fresh = SMALL.slots(), SMALL.slots()
    x, other = SMALL.tokens(9, n_before), SMALL.tokens(10, 90)
    kernel.step(rewound, (0, 0, x))
    if n_kept:
        kernel.step(fresh, (0, 0, x[:n_kept]))
    y = kernel.in_pieces(rewound, other, 45, pos=n_kept)
    np.testing.assert_array_equal(y, kernel.in_pieces(fresh, other, 45, pos=n_kept))


@pytest.mark.parametrize("log_decay", [0.0, -1e-7, -1e-3, -20.0, -200.0, -5000.0])
def test_decays_near_one_and_near_zero(kernel: Kernel, log_decay: float) -> None:
    x = SMALL.tokens(6, 200)
    x = replace(x, decay=np.full_like(x.decay, log_decay))
    assert_near(kernel.step(SMALL.slots(), (0, 0, x))[0], recurrence(x), ROUNDINGS)


def test_one_total_decay_does_not_blur_the_gentle_ones_after_it(kernel: Kernel) -> None:
    x = SMALL.tokens(7, 130)
    decay = np.full_like(x.decay, -0.01)
    decay[[3, 70]] = -3000
    x = replace(x, decay=decay)
    assert_near(kernel.step(SMALL.slots(), (0, 0, x))[0], recurrence(x), ROUNDINGS)


def test_zero_keys_and_queries_give_zero(kernel: Kernel) -> None:
    x = SMALL.tokens(15, 65)
    x = replace(x, q=np.zeros_like(x.q), k=np.zeros_like(x.k))
    np.testing.assert_array_equal(kernel.step(SMALL.slots(), (0, 0, x))[0], 0)


def test_other_slots_are_left_alone(kernel: Kernel) -> None:
    storage = SMALL.slots()
    kernel.step(storage, (1, 0, SMALL.tokens(13, 70)))
    before = [a[1].copy() for a in (storage.state, storage.k, storage.u, storage.decay)]
    kernel.step(storage, (0, 0, SMALL.tokens(14, 130)))
    after = [a[1] for a in (storage.state, storage.k, storage.u, storage.decay)]
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_inputs_may_be_slices_of_wider_rows(kernel: Kernel) -> None:
    """As the convolution leaves them: q, k and v side by side in one row."""
    x = SMALL.tokens(16, 70)
    row = np.concatenate([a.reshape(70, -1) for a in x.arrays], axis=1)
    ends = np.cumsum([a[0].size for a in x.arrays])[:-1]
    slices = np.split(row, ends, axis=1)
    views = [s.reshape(a.shape) for s, a in zip(slices, x.arrays, strict=True)]
    assert all(view.base is not None for view in views)
    y = kernel.step(SMALL.slots(), (0, 0, Tokens(*views)))[0]
    np.testing.assert_array_equal(y, kernel.step(SMALL.slots(), (0, 0, x))[0])


Arguments = dict[str, Any]


def with_spans(*rows: tuple[int, ...]) -> Callable[[Arguments], Any]:
    return lambda a: a.update(spans=np.asarray(rows, np.int64))


def without_last(name: str, axis: int) -> Callable[[Arguments], Any]:
    return lambda a: a.update({name: np.delete(a[name], -1, axis)})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (with_spans((0, 0, 4, 0, 0)), r"rows of spans is 4, rows of the batch is 5"),
        (with_spans((0, 0, 6, 0, 0)), r"span 0 has 6 tokens from row 0, .* row 0 of 5"),
        (with_spans((0, 0, 2, 0, 0), (1, 3, 2, 0, 0)), r"span 1 has 2 tokens from row 3"),
        (with_spans((0, 0, 0, 0, 0), (1, 0, 5, 0, 0)), r"span 0 has 0 tokens"),
        (with_spans((0, 0, 2**62, 0, 0)), r"span 0 has 4611686018427387904 tokens"),
        (with_spans((4, 0, 5, 0, 0)), r"span 0 is in slot 4; slots are 0 to 3"),
        (with_spans((-1, 0, 5, 0, 0)), r"span 0 is in slot -1"),
        (with_spans((1, 0, 2, 0, 0), (1, 2, 3, 0, 0)), r"span 1 is in slot 1; .* one span"),
        (with_spans((0, 0, 5, 65, 0)), r"position 65 with its anchor at 0"),
        (with_spans((0, 0, 5, 10, 64)), r"position 10 with its anchor at 64"),
        (with_spans((0, 0, 5, 10, 3)), r"must be a multiple of 64"),
        (with_spans((0, 0, 5, -(2**63), 0)), r"position -9223372036854775808"),
        (with_spans((0, 0, 5, 0)), r"columns of spans is 4"),
        (without_last("k", 0), r"rows of k is 4"),
        (without_last("k", 1), r"heads of k is 2"),
        (without_last("k", 2), r"head size of k is 19"),
        (without_last("v", 0), r"rows of v is 4"),
        (without_last("v", 1), r"n_head_v modulo n_head_k is 2, expected is 0"),
        (without_last("v", 2), r"head size of y is 36, head size of v is 35"),
        (without_last("decay", 1), r"heads of decay is 5"),
        (without_last("beta", 0), r"rows of beta is 4"),
        (without_last("y", 0), r"rows of y is 4"),
        (without_last("state", 2), r"S_k of state is 19"),
        (without_last("list_k", 1), r"entries of list_k is 63, expected is 64"),
        (without_last("list_u", 0), r"slots of list_u is 3"),
        (without_last("list_decay", 2), r"heads of list_decay is 5"),
        (lambda a: a.update(q=a["q"][:, :0], k=a["k"][:, :0]), r"n_head_k is 0"),
        (lambda a: a.update(v=a["v"].swapaxes(1, 2)[:, ::6, :6]), r"row of v must lie together"),
        (lambda a: a.update(level="sse9"), r"level 'sse9' does not run here"),
    ],
)
def test_what_does_not_fit_is_refused(
    level: str, pools_of_threads: Pools, spoil: Callable[[Arguments], Any], message: str
) -> None:
    storage, x = SMALL.slots(), SMALL.tokens(1, 5)
    arguments: Arguments = dict(zip(("q", "k", "v", "decay", "beta"), x.arrays, strict=True))
    arguments |= {
        "level": level,
        "pool": pools_of_threads[1],
        "state": storage.state,
        "list_k": storage.k,
        "list_u": storage.u,
        "list_decay": storage.decay,
        "spans": np.asarray([(0, 0, 5, 0, 0)], np.int64),
        "y": np.zeros_like(x.v),
    }
    _kernels.gated_delta_rule(**arguments)
    spoil(arguments)
    with pytest.raises(ValueError, match=message) as refusal:
        _kernels.gated_delta_rule(**arguments)
    assert "\n" not in str(refusal.value)
