"""Routing and grouped experts against loops over tokens in float64.

Tolerance 2e-6 of the largest result: three products over at most 11 terms, in float32.
"""

from typing import Literal

import numpy as np
import pytest

from junto.formats.tensor import Tensor
from junto.ops.contract import Routing, SwiGLU, Weight
from junto.ops.reference import Reference
from junto.ops.views import F32
from tests.ops.nearness import F64, SIZES, assert_near, normal

ROUNDINGS = 2e-6
N_EXPERT, N_EMBD, N_FF = 9, 11, 5
CLAMPED = SwiGLU(7.0, 1.702)
SHAPES = ((N_EXPERT, N_FF, N_EMBD), (N_EXPERT, N_FF, N_EMBD), (N_EXPERT, N_EMBD, N_FF))


def softmax(x: F64) -> F64:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def routed(
    logits: F32, n_used: int, order: Literal["all", "chosen"], scale: float
) -> list[dict[int, float]]:
    """Weight of each chosen expert, a dictionary a token; ties go to the lower id."""
    tokens = []
    for row in logits.astype(np.float64):
        chosen = sorted(range(len(row)), key=lambda e: (-row[e], e))[:n_used]
        if order == "chosen":
            share = softmax(row[chosen])
        else:
            share = softmax(row)[chosen] / softmax(row)[chosen].sum()
        tokens.append({e: float(w) * scale for e, w in zip(chosen, share, strict=True)})
    return tokens


@pytest.mark.parametrize("n_tok", SIZES)
@pytest.mark.parametrize("order", ["all", "chosen"])
def test_routing_chooses_the_largest_logits(n_tok: int, order: Literal["all", "chosen"]) -> None:
    logits = normal(n_tok, n_tok, N_EXPERT) * np.float32(3)
    routing = Reference().route(logits, 4, softmax=order, scale=2.5)
    expected = routed(logits, 4, order, 2.5)
    assert [sorted(row) for row in expected] == routing.expert_ids.tolist()
    weights = np.array([[row[e] for e in sorted(row)] for row in expected])
    assert_near(routing.weights, weights, 1e-6)
    assert routing.expert_ids.dtype == np.int64


def test_weights_sum_to_scale_in_both_orders() -> None:
    logits = normal(1, 7, N_EXPERT)
    for order in ("all", "chosen"):
        weights = Reference().route(logits, 3, softmax=order, scale=1.5).weights
        np.testing.assert_allclose(weights.sum(axis=1), 1.5, rtol=1e-6)


def test_equal_logits_fall_to_the_lower_id() -> None:
    logits = np.array([[1, 2, 0, 2, 2, -1, 2], [0] * 7, [-0.0, -0.0, 0, 0, -9, 0, 0]], np.float32)
    for order in ("all", "chosen"):
        ids = Reference().route(logits, 3, softmax=order).expert_ids
        np.testing.assert_array_equal(ids, [[1, 3, 4], [0, 1, 2], [0, 1, 2]])


def test_distant_logits_overflow_nothing() -> None:
    logits = np.array([[3e4, -3e4, 2.9e4, 0]], np.float32)
    for order in ("all", "chosen"):
        routing = Reference().route(logits, 2, softmax=order)
        np.testing.assert_array_equal(routing.expert_ids, [[0, 2]])
        np.testing.assert_array_equal(routing.weights, [[1, 0]])


def test_every_expert_may_be_used() -> None:
    logits = normal(2, 5, N_EXPERT)
    routing = Reference().route(logits, N_EXPERT, softmax="chosen")
    np.testing.assert_array_equal(routing.expert_ids, np.tile(np.arange(N_EXPERT), (5, 1)))
    assert_near(routing.weights, np.array([softmax(r) for r in logits.astype(np.float64)]), 1e-6)


def one_token(x: F64, expert: list[F64], biases: list[F64], form: SwiGLU) -> F64:
    gate, up = expert[0] @ x + biases[0], expert[1] @ x + biases[1]
    if form.limit is not None:
        gate, up = np.minimum(gate, form.limit), np.clip(up, -form.limit, form.limit) + 1
    h = up * gate / (1 + np.exp(-form.alpha * gate))
    return np.asarray(expert[2] @ h + biases[2])


def token_by_token(
    x: F32, routing: Routing, matrices: list[F32], biases: list[F32] | None, form: SwiGLU
) -> F64:
    zero = [np.zeros(shape[:2], np.float32) for shape in SHAPES]
    y = np.zeros(x.shape)
    for t, row in enumerate(x.astype(np.float64)):
        for e, weight in zip(routing.expert_ids[t], routing.weights[t], strict=True):
            expert = [m[e].astype(np.float64) for m in matrices]
            bias = [b[e].astype(np.float64) for b in biases or zero]
            y[t] += weight * one_token(row, expert, bias, form)
    return y


def random_matrices(seed: int) -> list[F32]:
    return [normal(seed + i, *shape) for i, shape in enumerate(SHAPES)]


def taken(ops: Reference, matrices: list[F32]) -> tuple[Weight, Weight, Weight]:
    """Gate, up and down, each as one stack."""
    gate, up, down = (ops.weight(Tensor.from_array("w", m, "memory")) for m in matrices)
    return gate, up, down


@pytest.mark.parametrize("n_tok", SIZES)
@pytest.mark.parametrize("with_biases", [False, True])
@pytest.mark.parametrize("form", [SwiGLU(), CLAMPED], ids=["plain", "clamped"])
def test_experts_equal_a_loop_over_tokens(n_tok: int, with_biases: bool, form: SwiGLU) -> None:
    ops, x, matrices = Reference(), normal(n_tok, n_tok, N_EMBD), random_matrices(7)
    biases = [normal(20 + i, *shape[:2]) for i, shape in enumerate(SHAPES)]
    routing = ops.route(normal(3, n_tok, N_EXPERT), 3, softmax="chosen", scale=1.5)
    y = ops.experts(
        x,
        routing,
        *taken(ops, matrices),
        form,
        (biases[0], biases[1], biases[2]) if with_biases else None,
    )
    expected = token_by_token(x, routing, matrices, biases if with_biases else None, form)
    assert_near(y, expected, ROUNDINGS)


def test_all_tokens_may_go_to_one_expert() -> None:
    ops, x, matrices = Reference(), normal(1, 65, N_EMBD), random_matrices(2)
    weights = np.linspace(0.1, 2, 65, dtype=np.float32)[:, None]
    routing = Routing(np.full((65, 1), 8), weights)
    y = ops.experts(x, routing, *taken(ops, matrices), SwiGLU())
    assert_near(y, token_by_token(x, routing, matrices, None, SwiGLU()), ROUNDINGS)


def test_row_does_not_depend_on_the_others_in_its_batch() -> None:
    ops, x, matrices = Reference(), normal(1, 63, N_EMBD), random_matrices(2)
    routing = ops.route(normal(3, 63, N_EXPERT), 3, softmax="all")
    whole = ops.experts(x, routing, *taken(ops, matrices), SwiGLU())
    alone = Routing(routing.expert_ids[40:41], routing.weights[40:41])
    y = ops.experts(x[40:41], alone, *taken(ops, matrices), SwiGLU())
    assert_near(y, whole[40:41], 1e-6)


def counted(ops: Reference, matrix: F32, reads: list[int]) -> Weight:
    """One tensor an expert, each of which notes its number when it is read."""

    def reading(expert: int) -> Tensor:
        whole = Tensor.from_array(f"w.{expert}", matrix[expert], "memory")

        def read() -> np.ndarray:
            reads.append(expert)
            return whole.data

        return Tensor(whole.name, whole.shape, whole.type, whole.source, read)

    return ops.weight([reading(expert) for expert in range(len(matrix))])


def test_only_experts_that_received_a_row_are_decoded_and_once_each() -> None:
    ops, x, matrices = Reference(), normal(1, 4, N_EMBD), random_matrices(2)
    reads: list[list[int]] = [[], [], []]
    gate, up, down = (counted(ops, m, r) for m, r in zip(matrices, reads, strict=True))
    assert (gate.name, gate.shape, down.shape) == ("w.0", SHAPES[0], SHAPES[2])
    ids = np.array([[2, 7], [2, 5], [5, 7], [0, 2]])
    routing = Routing(ids, np.abs(normal(3, 4, 2)))
    y = ops.experts(x, routing, gate, up, down, SwiGLU())
    assert reads == [[0, 2, 5, 7]] * 3
    assert_near(y, token_by_token(x, routing, matrices, None, SwiGLU()), ROUNDINGS)


def test_experts_are_decoded_anew_each_time() -> None:
    """Kept as float32, the experts of a real model would not fit."""
    ops, reads = Reference(), list[int]()
    gate, up, down = (counted(ops, m, reads) for m in random_matrices(2))
    routing = Routing(np.array([[4]]), np.ones((1, 1), np.float32))
    for _ in range(2):
        ops.experts(normal(1, 1, N_EMBD), routing, gate, up, down, SwiGLU())
    assert reads == [4] * 6
