"""Rounding to MXFP4 while training, so that the experts learn to live with four bits.

A block of 32 numbers along the inputs shares the scale 2^(floor(log2 max|x|) - 2); each is then one
of 0, .5, 1, 1.5, 2, 3, 4, 6 and their negatives (OCP Microscaling v1.0). The largest of a rounded
block is 4 or 6 times the scale, so that rounding twice changes nothing and any correct writer of
MXFP4 reproduces these weights exactly.
"""

from typing import Any

import torch

BLOCK = 32
MAX_EXPONENT = 2


def round_to_mxfp4(weight: Any, axis: int = -1) -> Any:
    """The nearest MXFP4 values, blocks along an axis whose length is a multiple of 32."""
    blocks = weight.movedim(axis, -1).unflatten(-1, (-1, BLOCK))
    largest = blocks.abs().amax(-1, keepdim=True)
    exponent = torch.frexp(largest).exponent - 1 - MAX_EXPONENT
    scale = torch.ldexp(torch.ones_like(largest), exponent)
    return (_round_to_e2m1(blocks / scale) * scale).flatten(-2).movedim(-1, axis)


def _round_to_e2m1(x: Any) -> Any:
    size = x.abs()
    # The spacing is a half below 2, one up to 4, two above; ties go to the even multiple.
    spacing = 0.5 + 0.5 * (size >= 2).to(x.dtype) + (size >= 4).to(x.dtype)
    return torch.round(x / spacing).mul(spacing).clamp(-6, 6)


class _StraightThrough(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, weight: Any, axis: int) -> Any:
        del ctx
        return round_to_mxfp4(weight, axis)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        del ctx
        return grads[0], None


def straight_through(weight: Any, axis: int = -1) -> Any:
    """Rounded forwards; backwards as if it were not there."""
    return _StraightThrough.apply(weight, axis)
