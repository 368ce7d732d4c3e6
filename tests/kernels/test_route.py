"""route against the reference: both orders of softmax, ties, scale, and hostile shapes."""

from typing import Literal

import numpy as np
import pytest

from junto import _kernels
from junto.ops.contract import Routing
from junto.ops.cpu import Cpu
from junto.ops.reference import Reference
from tests.tiny.random_weights import affine

CPU, REFERENCE = Cpu(n_threads=2), Reference()


def both(
    logits: np.ndarray, n_used: int, form: Literal["all", "chosen"], scale: float
) -> tuple[Routing, Routing]:
    return (
        CPU.route(logits, n_used, softmax=form, scale=scale),
        REFERENCE.route(logits, n_used, softmax=form, scale=scale),
    )


@pytest.mark.parametrize("form", ["all", "chosen"])
@pytest.mark.parametrize(
    ("n_tok", "n_expert", "n_used"), [(1, 5, 1), (2, 7, 7), (33, 32, 4), (65, 256, 8)]
)
def test_equals_the_reference(
    form: Literal["all", "chosen"], n_tok: int, n_expert: int, n_used: int
) -> None:
    """Weights to a few roundings of float32."""
    logits = affine("logits", (n_tok, n_expert), 0.0, 6.0)
    ours, expected = both(logits, n_used, form, 2.5)
    np.testing.assert_array_equal(ours.expert_ids, expected.expert_ids)
    np.testing.assert_allclose(ours.weights, expected.weights, rtol=2e-6)


def test_ties_fall_to_the_lower_expert() -> None:
    logits = np.array([[1, 3, 3, 0, 3], [2, 2, 2, 2, 2]], np.float32)
    ours, expected = both(logits, 2, "chosen", 1.0)
    np.testing.assert_array_equal(ours.expert_ids, [[1, 2], [0, 1]])
    np.testing.assert_array_equal(expected.expert_ids, ours.expert_ids)


def test_large_logits_do_not_overflow() -> None:
    logits = np.array([[1e4, -1e4, 1e4 - 1]], np.float32)
    ours, expected = both(logits, 2, "all", 1.0)
    np.testing.assert_allclose(ours.weights, expected.weights, rtol=2e-6)


def test_a_row_has_the_same_bits_alone_and_among_many() -> None:
    logits = affine("logits", (100, 64), 0.0, 3.0)
    together, _ = both(logits, 6, "all", 1.0)
    alone, _ = both(logits[77:78], 6, "all", 1.0)
    np.testing.assert_array_equal(alone.weights[0], together.weights[77])


def test_wrong_shapes_are_refused() -> None:
    pool = _kernels.ThreadPool(1)
    ids, weights = np.zeros((2, 5), np.int64), np.zeros((2, 5), np.float32)
    with pytest.raises(ValueError, match="5 experts used of 4"):
        _kernels.route(pool, np.zeros((2, 4), np.float32), True, 1.0, ids, weights)
    with pytest.raises(ValueError, match="rows of weights is 1, rows of logits is 2"):
        _kernels.route(pool, np.zeros((2, 8), np.float32), True, 1.0, ids, weights[:1])
