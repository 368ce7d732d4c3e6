"""Ops that look at one row at a time: norms, gates and activations."""

import numpy as np

from junto.ops.contract import SwiGLU
from junto.ops.views import F32

ONE = np.float32(1)


def sigmoid(x: F32) -> F32:
    """1 / (1 + e^-x), without overflow for any finite x."""
    small: F32 = np.exp(-np.abs(x))
    top: F32 = np.where(x >= 0, ONE, small).astype(np.float32)
    return top / (ONE + small)


def silu(x: F32) -> F32:
    """X * sigmoid(x)."""
    return x * sigmoid(x)


def softplus(x: F32) -> F32:
    """ln(1 + e^x), without overflow."""
    return np.logaddexp(x, np.float32(0))


def rms_norm(x: F32, weight: F32, eps: float) -> F32:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis."""
    mean_square = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
    y: F32 = (x / np.sqrt(mean_square + eps) * weight).astype(np.float32)
    return y


def layer_norm(x: F32, weight: F32, bias: F32, eps: float) -> F32:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis."""
    wide = x.astype(np.float64)
    apart = wide - np.mean(wide, axis=-1, keepdims=True)
    variance = np.mean(np.square(apart), axis=-1, keepdims=True)
    y: F32 = (apart / np.sqrt(variance + eps) * weight + bias).astype(np.float32)
    return y


def gated_rms_norm(x: F32, weight: F32, gate: F32, eps: float) -> F32:
    """rms_norm(x) * silu(gate)."""
    return rms_norm(x, weight, eps) * silu(gate)


def sigmoid_gate(x: F32, gate: F32) -> F32:
    """X * sigmoid(gate)."""
    return x * sigmoid(gate)


def gelu(x: F32) -> F32:
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), in float64 and rounded once."""
    wide = x.astype(np.float64)
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    y: F32 = (0.5 * wide * (1 + np.tanh(inner))).astype(np.float32)
    return y


def swiglu(gate: F32, up: F32, form: SwiGLU) -> F32:
    """silu(gate) * up, or gpt-oss's clamped form when `form.limit` is set."""
    if form.limit is None:
        return silu(gate) * up
    limit = np.float32(form.limit)
    gate = np.minimum(gate, limit)
    up = np.clip(up, -limit, limit)
    return (up + ONE) * gate * sigmoid(np.float32(form.alpha) * gate)
