"""Paged attention against a softmax written out row by row in float64.

Tolerance 2e-6 of the largest result: float32 scores of a few units, and sums over at most 400
positions, each rounded to 6e-8.
"""

import numpy as np
import pytest

from junto.ops.reference import Reference
from junto.ops.views import F32, Span
from tests.ops.nearness import F64, SIZES, assert_near, normal
from tests.ops.reference.scattered_pool import Rows, ScatteredPool, random_rows

ROUNDINGS = 2e-6
N_HEAD, N_HEAD_KV, HEAD_DIM = 6, 2, 5
SCALE = HEAD_DIM**-0.5
SINKS = np.array([0.5, -3, 2, 0, 4, -0.25], np.float32)


def rows(seed: int, n_tok: int) -> Rows:
    return random_rows(seed, n_tok, N_HEAD, N_HEAD_KV, HEAD_DIM)


def pool(**options: float) -> ScatteredPool:
    return ScatteredPool(N_HEAD_KV, HEAD_DIM, rest=options.get("rest", np.nan))


def softmax_attention(
    x: Rows, window: int | None = None, sinks: F32 | None = None, scale: float = SCALE
) -> F64:
    """A whole sequence from position 0 -> [n_tok, n_head, head_dim]."""
    q, k, v = (a.astype(np.float64) for a in (x.q, x.k, x.v))
    y = np.zeros_like(q)
    for i in range(x.n_tok):
        oldest = 0 if window is None else max(0, i - window + 1)
        for head in range(q.shape[1]):
            head_kv = head // (q.shape[1] // k.shape[1])
            score = k[oldest : i + 1, head_kv] @ q[i, head] * scale
            top = score.max() if sinks is None else max(score.max(), float(sinks[head]))
            weight = np.exp(score - top)
            total = weight.sum() + (0 if sinks is None else np.exp(sinks[head] - top))
            y[i, head] = weight @ v[oldest : i + 1, head_kv] / total
    return y


def step(
    storage: ScatteredPool,
    *parts: tuple[int, int, Rows],
    window: int | None = None,
    sinks: F32 | None = None,
    scale: float = SCALE,
) -> list[F32]:
    """One ragged batch of (slot, position, rows) -> the output of each part."""
    spans, row = [], 0
    for slot, pos, x in parts:
        spans.append(Span(slot, row, x.n_tok, pos))
        row += x.n_tok
    q = np.concatenate([x.q for _, _, x in parts])
    k = np.concatenate([x.k for _, _, x in parts])
    v = np.concatenate([x.v for _, _, x in parts])
    view = storage.view(tuple(spans))
    y = Reference().attention(q, k, v, view, scale=scale, window=window, sinks=sinks)
    return [y[span.rows] for span in spans]


def in_pieces(
    x: Rows, piece: int, window: int | None = None, sinks: F32 | None = None, slot: int = 0
) -> F32:
    """A sequence fed `piece` tokens at a time."""
    storage = pool()
    starts = range(0, x.n_tok, piece)
    steps = [
        step(storage, (slot, i, x[i : i + piece]), window=window, sinks=sinks)[0] for i in starts
    ]
    return np.concatenate(steps)


@pytest.mark.parametrize("n_tok", SIZES)
def test_attention_is_causal_softmax_over_scattered_blocks(n_tok: int) -> None:
    x = rows(n_tok, n_tok)
    assert_near(step(pool(), (0, 0, x))[0], softmax_attention(x), ROUNDINGS)


@pytest.mark.parametrize(("n_head", "n_head_kv"), [(3, 3), (4, 1), (8, 2)])
def test_each_kv_head_serves_consecutive_query_heads(n_head: int, n_head_kv: int) -> None:
    x = random_rows(1, 70, n_head, n_head_kv, 7)
    y = step(ScatteredPool(n_head_kv, 7), (0, 0, x))[0]
    assert_near(y, softmax_attention(x), ROUNDINGS)


def test_ragged_batch_attends_each_sequence_to_itself() -> None:
    storage, parts = pool(), {3: rows(1, 65), 0: rows(2, 1), 7: rows(3, 130), 5: rows(4, 64)}
    outputs = step(storage, *((slot, 0, x) for slot, x in parts.items()))
    for y, x in zip(outputs, parts.values(), strict=True):
        assert_near(y, softmax_attention(x), ROUNDINGS)


def test_decode_rows_share_a_step_with_prefill_rows() -> None:
    storage, old, young = pool(), rows(1, 129), rows(2, 100)
    step(storage, (1, 0, old[:127]))
    step(storage, (1, 127, old[127:128]))
    y_old, y_young = step(storage, (1, 128, old[128:]), (0, 0, young))
    assert_near(y_old, softmax_attention(old)[128:], ROUNDINGS)
    assert_near(y_young, softmax_attention(young), ROUNDINGS)


@pytest.mark.parametrize("piece", [1, 3, 63, 64, 65])
@pytest.mark.parametrize("window", [None, 50])
def test_pieces_equal_the_whole(piece: int, window: int | None) -> None:
    x = rows(piece, 130)
    expected = softmax_attention(x, window, SINKS)
    assert_near(in_pieces(x, piece, window, SINKS), expected, ROUNDINGS)


@pytest.mark.parametrize("window", [1, 2, 63, 64, 65, 128, 129, 130, 131])
def test_window_limits_what_a_query_sees(window: int) -> None:
    x = rows(window, 200)
    assert_near(step(pool(), (0, 0, x), window=window)[0], softmax_attention(x, window), ROUNDINGS)


@pytest.mark.parametrize("window", [1, 5, 64, 128])
def test_key_is_seen_at_a_distance_of_window_less_one_and_not_of_window(window: int) -> None:
    x = rows(1, window + 1)
    moved = Rows(x.q, x.k.copy(), x.v.copy())
    moved.v[0] += 100
    change = np.abs(
        step(pool(), (0, 0, x), window=window)[0] - step(pool(), (0, 0, moved), window=window)[0]
    )
    assert change[window - 1].min() > 1e-3
    assert change[window].max() == 0


@pytest.mark.parametrize("n_tok", SIZES)
def test_sinks_join_each_heads_softmax(n_tok: int) -> None:
    x = rows(n_tok, n_tok)
    y = step(pool(), (0, 0, x), sinks=SINKS)[0]
    assert_near(y, softmax_attention(x, sinks=SINKS), ROUNDINGS)
    assert not np.allclose(y, softmax_attention(x), rtol=0.01)


def test_sink_of_minus_infinity_is_no_sink() -> None:
    x = rows(1, 130)
    none = np.full(N_HEAD, -np.inf, np.float32)
    np.testing.assert_array_equal(step(pool(), (0, 0, x), sinks=none), step(pool(), (0, 0, x)))


def test_huge_sink_takes_the_whole_row_of_its_head_alone() -> None:
    x = rows(1, 130)
    sinks = np.array([1e4, -np.inf, -np.inf, -np.inf, -np.inf, 1e4], np.float32)
    y = step(pool(), (0, 0, x), sinks=sinks)[0]
    np.testing.assert_array_equal(y[:, [0, 5]], 0)
    assert_near(y[:, 1:5], softmax_attention(x)[:, 1:5], ROUNDINGS)


@pytest.mark.parametrize("n_dropped", [1, 2])
def test_tables_may_begin_after_the_first_block(n_dropped: int) -> None:
    """Dropped blocks hold NaN here, so a glance at them would show."""
    storage, x, window = pool(), rows(1, 210), 65
    step(storage, (2, 0, x[:195]), window=window)
    storage.drop_first(2, n_dropped)
    y = step(storage, (2, 195, x[195:]), window=window, sinks=SINKS)[0]
    assert_near(y, softmax_attention(x, window, SINKS)[195:], ROUNDINGS)


def test_content_of_other_blocks_has_no_influence() -> None:
    x = rows(1, 130)
    outputs = [step(pool(rest=rest), (0, 0, x), window=70)[0] for rest in (np.nan, 1e30, 0)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(outputs[0], outputs[2])


def test_crowded_pool_equals_an_empty_one() -> None:
    crowded, x = pool(), rows(1, 130)
    step(crowded, (8, 0, rows(2, 65)), (9, 0, rows(3, 200)))
    alone = step(pool(), (0, 0, x))[0]
    np.testing.assert_array_equal(step(crowded, (0, 0, x))[0], alone)


def test_rows_fed_again_replace_the_ones_before() -> None:
    storage, x, other = pool(), rows(1, 130), rows(2, 130)
    step(storage, (0, 0, other))
    step(storage, (0, 0, x[:100]))
    assert_near(step(storage, (0, 100, x[100:]))[0], softmax_attention(x)[100:], ROUNDINGS)


def test_large_scores_do_not_overflow() -> None:
    x = rows(1, 66)
    y = step(pool(), (0, 0, x), scale=1e4, sinks=SINKS)[0]
    expected = softmax_attention(x, sinks=SINKS, scale=1e4)
    # Scores of 3e4 are rounded to 2e-3, and so are the weights.
    assert_near(y, expected, 1e-2)


def test_strided_queries_equal_contiguous_ones() -> None:
    """qwen35moe's queries lie beside their gates in one matrix."""
    x = rows(1, 70)
    wide = normal(2, 70, N_HEAD, 2 * HEAD_DIM)
    wide[..., :HEAD_DIM] = x.q
    view = pool().view((Span(0, 0, 70, 0),))
    y = Reference().attention(wide[..., :HEAD_DIM], x.k, x.v, view, scale=SCALE)
    assert_near(y, softmax_attention(x), ROUNDINGS)
