"""DeltaNet on anchored chunks: the short convolution and the gated delta rule.

With M0 the state at the anchor, G the log-decay cumulated since then and (k_j, u_j) the list,

    pred_t = e^G_t k_t.M0 + sum over j < t  of e^(G_t - G_j) (k_t.k_j) u_j
    u_t    = beta_t (v_t - pred_t)
    y_t    = e^G_t q_t.M0 + sum over j <= t of e^(G_t - G_j) (q_t.k_j) u_j

equals the recurrence M <- e^g M, M <- M + k (beta (v - k.M)), y = q.M of arXiv 2412.06464.
After 64 tokens the list folds into M0.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from junto.ops.reference.elementwise import sigmoid, silu, softplus
from junto.ops.views import CHUNK, F32, DeltaView, Span

F64 = npt.NDArray[np.float64]

L2_EPS = np.float32(1e-6)


def delta_gates(alpha: F32, beta: F32, ssm_a: F32, ssm_dt: F32) -> tuple[F32, F32]:
    """Log-decay ssm_a * softplus(alpha + ssm_dt), and sigmoid(beta)."""
    return ssm_a * softplus(alpha + ssm_dt), sigmoid(beta)


def short_conv(x: F32, weight: F32, view: DeltaView) -> F32:
    """Causal depthwise convolution with SiLU; see `junto.ops.contract.Ops.short_conv`."""
    n_tap = weight.shape[1]
    y = np.empty_like(x)
    for piece in _pieces(view):
        history = view.conv[piece.slot]
        if piece.fold:
            history[: n_tap - 1] = history[CHUNK : CHUNK + n_tap - 1]
        history[n_tap - 1 + piece.start : n_tap - 1 + piece.end] = x[piece.rows]
        window = history[piece.start : piece.end + n_tap - 1]
        taps = [window[tap : tap + piece.n_tok] * weight[:, tap] for tap in range(n_tap)]
        y[piece.rows] = silu(sum(taps[1:], start=taps[0]))
    return y


def gated_delta_rule(q: F32, k: F32, v: F32, decay: F32, beta: F32, view: DeltaView) -> F32:
    """Gated delta rule; see `junto.ops.contract.Ops.gated_delta_rule`."""
    q = l2_normalise(q) * np.float32(q.shape[-1] ** -0.5)
    k = l2_normalise(k)
    y = np.empty_like(v)
    for piece in _pieces(view):
        chunk = Chunk(*(a[piece.slot] for a in (view.state, view.k, view.u, view.decay)))
        if piece.fold:
            chunk.fold()
        rows = piece.rows
        y[rows] = chunk.extend(piece.start, q[rows], k[rows], v[rows], decay[rows], beta[rows])
    return y


def l2_normalise(x: F32) -> F32:
    """x / sqrt(sum(x^2) + 1e-6) over the last axis."""
    length: F32 = np.sqrt(np.sum(np.square(x), axis=-1, keepdims=True) + L2_EPS)
    return x / length


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a span that falls into one chunk: rows of the batch, entries of the list.

    fold says that the list before it is full and must go into the state first.
    """

    slot: int
    rows: slice
    start: int
    end: int
    fold: bool

    @property
    def n_tok(self) -> int:
        """Tokens in this piece."""
        return self.end - self.start


def _pieces(view: DeltaView) -> Iterator[Piece]:
    for span, anchor in zip(view.spans, view.anchors, strict=True):
        yield from _cut(span, anchor)


def _cut(span: Span, anchor: int) -> Iterator[Piece]:
    pos = span.pos
    while pos < span.end:
        fold = pos - anchor == CHUNK
        if fold:
            anchor = pos
        end = min(span.end, anchor + CHUNK)
        row = span.row + pos - span.pos
        yield Piece(span.slot, slice(row, row + end - pos), pos - anchor, end - anchor, fold)
        pos = end


@dataclass(frozen=True, slots=True)
class Chunk:
    """The anchored state of one sequence in one layer: views into the cache, mutated.

    state [n_head_v, S_k, S_v], k [64, n_head_k, S_k], u [64, n_head_v, S_v], decay [64, n_head_v]

    Held in float32; all sums run in float64, so that the cut of a prompt hardly shows.
    """

    state: F32
    k: F32
    u: F32
    decay: F32

    def fold(self) -> None:
        """State <- e^G_64 state + sum of e^(G_64 - G_j) k_j u_j; the list is then empty."""
        g = self._cumulated(CHUNK)  # [n_head_v, 64]
        total = g[:, -1:]
        rest = np.exp(total - g)
        keys = self._by_value_head(self.k)  # [n_head_v, 64, S_k]
        added = keys.transpose(0, 2, 1) @ (self.u.transpose(1, 0, 2) * rest[..., None])
        self.state[...] = np.exp(total)[..., None] * self.state + added

    def extend(self, start: int, q: F32, k: F32, v: F32, decay: F32, beta: F32) -> F32:
        """Append tokens at entry `start` and give their outputs [n_tok, n_head_v, S_v]."""
        end = start + len(k)
        self.k[start:end] = k
        self.decay[start:end] = decay
        keys = self._by_value_head(self.k[:end])  # [n_head_v, end, S_k]
        queries = self._by_value_head(q)  # [n_head_v, n_tok, S_k]
        g = self._cumulated(end)  # [n_head_v, end]
        since = _decay_between(g, start)  # [n_head_v, n_tok, end]
        whole = np.exp(g[:, start:])[..., None]  # [n_head_v, n_tok, 1]

        self._correct(start, keys, since, whole * (keys[:, start:] @ self.state), v, beta)
        u = self.u[:end].transpose(1, 0, 2)  # [n_head_v, end, S_v]
        pairs = queries @ keys.transpose(0, 2, 1) * since  # [n_head_v, n_tok, end]
        y = whole * (queries @ self.state) + pairs @ u
        return y.transpose(1, 0, 2).astype(np.float32)

    def _correct(self, start: int, keys: F64, since: F64, base: F64, v: F32, beta: F32) -> None:
        """Forward substitution for u: each correction needs the ones before it."""
        pairs = keys[:, start:] @ keys.transpose(0, 2, 1) * since  # [n_head_v, n_tok, end]
        for t in range(len(v)):
            j = start + t
            pred = base[:, t] + np.einsum("hj,jhs->hs", pairs[:, t, :j], self.u[:j])
            self.u[j] = beta[t][:, None] * (v[t] - pred)

    def _cumulated(self, end: int) -> F64:
        """G for the first `end` entries -> float64 [n_head_v, end].

        In float32 a difference of two sums loses the gentle decays that follow a strong one.
        """
        return np.cumsum(self.decay[:end].T, axis=1, dtype=np.float64)

    def _by_value_head(self, x: F32) -> F64:
        """[n_tok, n_head_k, S] -> float64 [n_head_v, n_tok, S], by the key head each reads."""
        n_head_v = self.state.shape[0]
        tiled = np.tile(x, (1, n_head_v // x.shape[1], 1)).transpose(1, 0, 2)
        return tiled.astype(np.float64)


def _decay_between(g: F64, start: int) -> F64:
    """e^(G_t - G_j) for t from `start` on and all j <= t, zero beyond -> [n_head_v, n_tok, end]."""
    difference = g[:, start:, None] - g[:, None, :]
    end = g.shape[1]
    past = np.arange(end)[None, :] <= np.arange(start, end)[:, None]
    return np.where(past, np.exp(np.minimum(difference, 0.0)), 0.0)
