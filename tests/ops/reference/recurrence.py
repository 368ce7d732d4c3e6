"""The gated delta rule token by token in float64, as its paper states it: the oracle of chunks."""

from dataclasses import dataclass

import numpy as np

from junto.ops.views import F32
from tests.ops.nearness import F64


@dataclass(frozen=True, slots=True)
class Tokens:
    """Inputs of the rule for consecutive tokens of one sequence.

    q, k [n_tok, n_head_k, S_k], v [n_tok, n_head_v, S_v], decay and beta [n_tok, n_head_v]
    """

    q: F32
    k: F32
    v: F32
    decay: F32
    beta: F32

    def __getitem__(self, tokens: slice) -> "Tokens":
        return Tokens(*(a[tokens] for a in self.arrays))

    @property
    def n_tok(self) -> int:
        return len(self.q)

    @property
    def arrays(self) -> tuple[F32, F32, F32, F32, F32]:
        return self.q, self.k, self.v, self.decay, self.beta


def random_tokens(seed: int, n_tok: int, n_head_k: int, ratio: int, s_k: int, s_v: int) -> Tokens:
    """Tokens with decays from nearly none to nearly total."""
    rng = np.random.default_rng(seed)
    n_head_v = n_head_k * ratio
    q, k = (rng.standard_normal((n_tok, n_head_k, s_k)) * 3 for _ in range(2))
    v = rng.standard_normal((n_tok, n_head_v, s_v)) * 3
    decay = -np.exp(rng.uniform(-7, 1.5, (n_tok, n_head_v)))
    beta = rng.uniform(0.01, 0.99, (n_tok, n_head_v))
    return Tokens(*(a.astype(np.float32) for a in (q, k, v, decay, beta)))


def recurrence(x: Tokens, state: F64 | None = None) -> F64:
    """Outputs [n_tok, n_head_v, S_v], beginning with `state` [n_head_v, S_k, S_v] (zero if None).

    Value head h reads key head h % n_head_k.
    """
    q, k, v, decay, beta = (a.astype(np.float64) for a in x.arrays)
    n_head_k, s_k = q.shape[1:]
    q, k = (a / np.sqrt((a**2).sum(-1, keepdims=True) + 1e-6) for a in (q, k))
    q = q / np.sqrt(s_k)
    m = np.zeros((v.shape[1], s_k, v.shape[2])) if state is None else state.copy()
    y = np.zeros_like(v)
    for t in range(x.n_tok):
        for h in range(v.shape[1]):
            m[h] *= np.exp(decay[t, h])
            pred = k[t, h % n_head_k] @ m[h]
            m[h] += np.outer(k[t, h % n_head_k], beta[t, h] * (v[t, h] - pred))
            y[t, h] = q[t, h % n_head_k] @ m[h]
    return y


def convolution(x: F32, weight: F32) -> F64:
    """SiLU of the causal depthwise convolution of a sequence from its start, tap by tap.

    x [n_tok, n_channel], weight [n_channel, n_tap] with the oldest tap first
    """
    n_tap = weight.shape[1]
    y = np.zeros(x.shape)
    for t in range(len(x)):
        for tap in range(n_tap):
            source = t - (n_tap - 1) + tap
            if source >= 0:
                y[t] += x[source].astype(np.float64) * weight[:, tap]
    return np.asarray(y / (1 + np.exp(-y)))
