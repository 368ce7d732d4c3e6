"""From logits to a token: temperature, top-k, top-p, min-p, and one uniform number."""

from collections.abc import Sequence

import numpy as np

from junto.ops.contract import Sampling
from junto.ops.views import F32


def sample(logits: F32, how: Sequence[Sampling], uniform: Sequence[float]) -> list[int]:
    """One token for each row; see `junto.ops.contract.Ops.sample`."""
    rows = zip(logits, how, uniform, strict=True)
    return [_sample_row(row, sampling, u) for row, sampling, u in rows]


def _sample_row(logits: F32, how: Sampling, uniform: float) -> int:
    if how.temperature == 0:
        return int(np.argmax(logits))
    order = np.argsort(-logits, kind="stable")[: how.top_k or None]
    scaled = (logits[order] - logits[order[0]]).astype(np.float64) / how.temperature
    p = np.exp(scaled)
    p /= p.sum()
    kept = _kept(p, how)
    cumulated = np.cumsum(p[:kept])
    return int(order[np.searchsorted(cumulated, uniform * cumulated[-1], side="right")])


def _kept(p: np.ndarray, how: Sampling) -> int:
    """How many of the probabilities, largest first, top-p and min-p leave: at least one."""
    nucleus = int(np.searchsorted(np.cumsum(p), how.top_p)) + 1 if how.top_p < 1 else len(p)
    likely = int(np.count_nonzero(p >= how.min_p * p[0]))
    return max(1, min(nucleus, likely, len(p)))
