"""Rotary position embedding."""

import numpy as np

from junto.ops.contract import Angles, Rotation
from junto.ops.views import F32, I32


def angles(positions: I32, rotation: Rotation) -> Angles:
    """Cosines and sines of position * inv_freq.

    Taken in float64, so that a position of 200,000 loses nothing before the cosine.
    """
    angle = positions[:, None] * rotation.inv_freq  # [n_tok, n_pair]
    cos = (np.cos(angle) * rotation.scale).astype(np.float32)
    sin = (np.sin(angle) * rotation.scale).astype(np.float32)
    return Angles(cos, sin, rotation.pairs)


def rope(x: F32, angles: Angles) -> F32:
    """Turn the first dimensions of each head; the rest stays."""
    n_pair = angles.cos.shape[1]
    if angles.pairs == "half":
        first, second = slice(0, n_pair), slice(n_pair, 2 * n_pair)
    else:
        first, second = slice(0, 2 * n_pair, 2), slice(1, 2 * n_pair, 2)
    cos, sin = angles.cos[:, None], angles.sin[:, None]  # [n_tok, 1, n_pair]
    y = x.copy()
    a, b = x[..., first], x[..., second]
    y[..., first] = a * cos - b * sin
    y[..., second] = b * cos + a * sin
    return y
