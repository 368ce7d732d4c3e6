"""Inverse frequencies of rotary embeddings, in float64: plain, Llama-3 scaled, YaRN."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]


def plain_frequencies(theta: float, n_rot: int) -> F64:
    """theta^(-2j/n_rot) for j < n_rot/2 -> float64 [n_rot // 2], radians a position."""
    return np.asarray(theta ** (-np.arange(0, n_rot, 2, dtype=np.float64) / n_rot))


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Low frequencies divided by `factor`, high ones kept, a smooth step between them.

    Source: Llama 3.1; equals transformers' rope_type "llama3".
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    n_ctx_original: int

    def frequencies(self, theta: float, n_rot: int) -> F64:
        """Scaled frequencies -> float64 [n_rot // 2]."""
        inv_freq = plain_frequencies(theta, n_rot)
        turns = self.n_ctx_original * inv_freq / (2 * math.pi)  # turns over the original context
        step = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        keep = np.clip(step, 0.0, 1.0)
        return np.asarray(inv_freq / self.factor * (1 - keep) + inv_freq * keep)


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """YaRN (arXiv 2309.00071): slow dimensions interpolated, fast ones kept, a ramp between.

    round_range rounds the ramp's ends outwards to whole dimensions, as llama.cpp always does and
    gpt-oss's publisher does not.
    """

    factor: float
    n_ctx_original: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    round_range: bool = False

    def frequencies(self, theta: float, n_rot: int) -> F64:
        """Scaled frequencies -> float64 [n_rot // 2]."""
        inv_freq = plain_frequencies(theta, n_rot)
        low, high = self._range(theta, n_rot)
        ramp = np.clip((np.arange(n_rot // 2) - low) / (high - low), 0.0, 1.0)
        return np.asarray(inv_freq / self.factor * ramp + inv_freq * (1 - ramp))

    def _range(self, theta: float, n_rot: int) -> tuple[float, float]:
        def dimension(turns: float) -> float:
            slowest = self.n_ctx_original / (turns * 2 * math.pi)
            return n_rot * math.log(slowest) / (2 * math.log(theta))

        low, high = dimension(self.beta_fast), dimension(self.beta_slow)
        if self.round_range:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0.0), min(high, n_rot - 1.0)
        return low, high if high > low else low + 0.001

    @property
    def magnitude(self) -> float:
        """Factor on cosine and sine: 0.1 ln(factor) + 1."""
        return 0.1 * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0
