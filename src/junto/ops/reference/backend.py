"""The reference backend as one object: it holds weights and hands each op to its module."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from junto.ops.contract import Forward, StepCache
from junto.ops.reference import (
    attention,
    delta_rule,
    elementwise,
    experts,
    matrices,
    rotate,
    sampling,
)
from junto.ops.views import F32, Batch


class Reference(matrices.Matrices):
    """All ops of `junto.ops.contract.Ops` in NumPy.

    decoded_budget bounds the bytes of matrices kept as float64 once they are first decoded; what
    does not fit, and every expert, stays as stored and is decoded each time it is used.
    """

    name = "reference"
    notes = ()
    is_keeping = False

    def step(self) -> AbstractContextManager[None]:
        """Nothing needs to be ready."""
        return nullcontext()

    def run(self, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        """Op by op."""
        return forward(self, batch, cache)

    def loading(self) -> AbstractContextManager[None]:
        """Weights stay where they are."""
        return nullcontext()

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Nothing was begun."""

    rms_norm = staticmethod(elementwise.rms_norm)
    layer_norm = staticmethod(elementwise.layer_norm)
    gated_rms_norm = staticmethod(elementwise.gated_rms_norm)
    sigmoid_gate = staticmethod(elementwise.sigmoid_gate)
    gelu = staticmethod(elementwise.gelu)
    swiglu = staticmethod(elementwise.swiglu)
    angles = staticmethod(rotate.angles)
    rope = staticmethod(rotate.rope)
    attention = staticmethod(attention.attention)
    short_conv = staticmethod(delta_rule.short_conv)
    gated_delta_rule = staticmethod(delta_rule.gated_delta_rule)
    delta_gates = staticmethod(delta_rule.delta_gates)
    route = staticmethod(experts.route)
    experts = staticmethod(experts.experts)
    sample = staticmethod(sampling.sample)
