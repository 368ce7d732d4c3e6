"""Routing and the grouped experts of a mixture-of-experts layer."""

from typing import Literal

import numpy as np

from junto.ops.contract import Routing, SwiGLU, Weight
from junto.ops.reference.elementwise import swiglu
from junto.ops.reference.matrices import product, stored
from junto.ops.views import F32


def probabilities(x: F32) -> F32:
    """Softmax over the last axis."""
    e: F32 = np.exp(x - x.max(axis=-1, keepdims=True))
    total: F32 = e.sum(axis=-1, keepdims=True)
    return e / total


def route(
    logits: F32, n_used: int, *, softmax: Literal["all", "chosen"], scale: float = 1.0
) -> Routing:
    """Choose experts; see `junto.ops.contract.Ops.route`. Equal logits fall to the lower id."""
    chosen = np.argsort(-logits, axis=-1, kind="stable")[:, :n_used]
    expert_ids = np.sort(chosen, axis=-1)
    kept = np.take_along_axis(logits, expert_ids, axis=-1)
    if softmax == "chosen":
        weights = probabilities(kept)
    else:
        weights = np.take_along_axis(probabilities(logits), expert_ids, axis=-1)
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return Routing(expert_ids, weights * np.float32(scale))


def experts(
    x: F32,
    routing: Routing,
    gate: Weight,
    up: Weight,
    down: Weight,
    form: SwiGLU,
    biases: tuple[F32, F32, F32] | None = None,
) -> F32:
    """Weighted sum of the routed experts; see `junto.ops.contract.Ops.experts`.

    Only the matrices of experts that received a row are decoded, one expert at a time.
    """
    y = np.zeros_like(x)
    for expert in np.unique(routing.expert_ids):
        rows, place = np.nonzero(routing.expert_ids == expert)
        share = routing.weights[rows, place][:, None]
        h_gate = product(x[rows], matrix(gate, expert))
        h_up = product(x[rows], matrix(up, expert))
        if biases is not None:
            h_gate, h_up = h_gate + biases[0][expert], h_up + biases[1][expert]
        out = product(swiglu(h_gate, h_up, form), matrix(down, expert))
        if biases is not None:
            out = out + biases[2][expert]
        y[rows] += share * out
    return y


def matrix(weight: Weight, expert: int) -> F32:
    """The float32 matrix [n_out, n_in] of one expert."""
    return stored(weight).tensor[int(expert)].float32()
