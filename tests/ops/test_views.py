"""Ragged batches know their rows, positions and logits; anchors move once a token needs room."""

import numpy as np
import pytest

from junto.ops.views import Batch, Span, anchor_after

PARTS = ((4, 0, (11, 12, 13)), (1, 70, (21,)), (2, 63, (31, 32)))


def test_batch_lays_sequences_one_after_the_other() -> None:
    batch = Batch.pack(PARTS, all_logits=False)
    assert batch.spans == (Span(4, 0, 3, 0), Span(1, 3, 1, 70), Span(2, 4, 2, 63))
    np.testing.assert_array_equal(batch.token_ids, [11, 12, 13, 21, 31, 32])
    np.testing.assert_array_equal(batch.positions, [0, 1, 2, 70, 63, 64])
    assert {a.dtype for a in (batch.token_ids, batch.positions, batch.logit_rows)} == {
        np.dtype(np.int32)
    }


def test_logits_are_asked_of_last_rows_or_of_all() -> None:
    last = Batch.pack(PARTS, all_logits=False).logit_rows
    np.testing.assert_array_equal(last, [2, 3, 5])
    np.testing.assert_array_equal(Batch.pack(PARTS, all_logits=True).logit_rows, range(6))


def test_span_knows_its_rows_and_its_end() -> None:
    span = Span(slot=3, row=5, n_tok=7, pos=60)
    assert (span.rows, span.end) == (slice(5, 12), 67)


@pytest.mark.parametrize(
    ("anchor", "end", "expected"),
    [
        (0, 0, 0),
        (0, 1, 0),
        (0, 63, 0),
        (0, 64, 0),
        (0, 65, 64),
        (0, 128, 64),
        (0, 129, 128),
        (64, 64, 64),
        (64, 128, 64),
        (64, 129, 128),
        (64, 700, 640),
    ],
)
def test_anchor_moves_when_a_full_list_meets_a_token(anchor: int, end: int, expected: int) -> None:
    assert anchor_after(anchor, end) == expected
