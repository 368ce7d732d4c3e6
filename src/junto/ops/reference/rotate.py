"""Rotary position embedding."""

import numpy as np

from junto.ops.contract import Rotation
from junto.ops.views import F32, I32


def rope(x: F32, positions: I32, rotation: Rotation) -> F32:
    """Turn the first dimensions of each head by position * inv_freq; the rest stays.

    Angles are taken in float64, so a position of 200,000 loses nothing before the cosine.
    """
    n_pair = len(rotation.inv_freq)
    angle = positions[:, None, None] * rotation.inv_freq  # [n_tok, 1, n_pair]
    cos = (np.cos(angle) * rotation.scale).astype(np.float32)
    sin = (np.sin(angle) * rotation.scale).astype(np.float32)
    if rotation.pairs == "half":
        first, second = slice(0, n_pair), slice(n_pair, 2 * n_pair)
    else:
        first, second = slice(0, 2 * n_pair, 2), slice(1, 2 * n_pair, 2)
    y = x.copy()
    a, b = x[..., first], x[..., second]
    y[..., first] = a * cos - b * sin
    y[..., second] = b * cos + a * sin
    return y
