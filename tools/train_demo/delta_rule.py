"""The gated delta rule over whole rows, in chunks, as a forward pass that trains fast on a CPU.

Equals the recurrence M = exp(g) M; M += k (beta (v - kT M))T; y = qT M. Within a chunk the updates
are one triangular system (the WY form, arXiv 2412.06464); only the state goes from chunk to chunk.
Knows nothing of projections, convolution or normalisation. float32 throughout.
"""

from typing import Any

import torch

CHUNK = 32


def gated_delta_rule(query: Any, key: Any, value: Any, decay: Any, beta: Any) -> Any:
    """The outputs for a row that starts with an empty state.

    query, key   [n_row, n_tok, Hk, S]   unit length; query already scaled
    value        [n_row, n_tok, Hv, S]   value head h is served by key head h // (Hv / Hk)
    decay, beta  [n_row, n_tok, Hv]      decay is a logarithm, at most 0
    returns      [n_row, n_tok, Hv, S]

    n_tok must be a multiple of `CHUNK`.
    """
    n_group = value.shape[2] // key.shape[2]
    query, key, value = (_chunks(x) for x in (query, key, value))  # [n_row, H, n_chunk, CHUNK, S]
    decay, beta = (_chunks(x[..., None]) for x in (decay, beta))
    total = decay.cumsum(3)
    # exp of the decay from token j to token i of a chunk, zero where j comes later.
    later = torch.ones(CHUNK, CHUNK, dtype=torch.bool).triu(1)
    between = (total - total.mT).masked_fill(later, float("-inf")).exp()
    inner = _grouped(key @ key.mT, n_group) * between * beta
    reads = _grouped(query @ key.mT, n_group) * between
    query, key = _grouped(query, n_group), _grouped(key, n_group)
    known = torch.cat([value, key * total.exp()], -1) * beta
    solved = torch.linalg.solve_triangular(inner, known, upper=False, unitriangular=True)
    fresh, stale = solved.chunk(2, -1)
    end = total[:, :, :, -1:]
    writes = (key * (end - total).exp()).mT
    states, news = _scan(fresh, stale, writes, end.exp())
    y = (query * total.exp()) @ states + reads @ news
    return y.flatten(2, 3).transpose(1, 2)


def _scan(fresh: Any, stale: Any, writes: Any, shrink: Any) -> tuple[Any, Any]:
    """The state before each chunk and the corrected values in it, stacked along axis 2."""
    n_row, n_head, _, _, s = fresh.shape
    state = fresh.new_zeros(n_row, n_head, s, s)
    states, news = [], []
    chunks = zip(*(x.unbind(2) for x in (fresh, stale, writes, shrink)), strict=True)
    for value, read, write, kept in chunks:
        states.append(state)
        news.append(value - read @ state)
        state = state * kept + write @ news[-1]
    return torch.stack(states, 2), torch.stack(news, 2)


def _chunks(x: Any) -> Any:
    return x.transpose(1, 2).unflatten(2, (-1, CHUNK))


def _grouped(x: Any, n_group: int) -> Any:
    return x.repeat_interleave(n_group, 1)
