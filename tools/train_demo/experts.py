"""The experts' part of a mixture of experts, fast enough to train on a CPU.

Tokens are sorted by expert, so that each expert is one matrix product; gathers replace all
scatters, backwards too. Knows neither router nor activation: both come from the family. Gives what
the families' plain loops give, up to rounding.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F


class _Dispatch(torch.autograd.Function):  # type: ignore[misc]
    """Rows of x [n_tok, D] in expert order -> [n_tok * k, D]; backwards they are summed."""

    @staticmethod
    def forward(ctx: Any, x: Any, token: Any, inverse: Any, k: int) -> Any:
        ctx.save_for_backward(inverse)
        ctx.k = k
        return x.index_select(0, token)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (inverse,) = ctx.saved_tensors
        rows = grads[0].index_select(0, inverse).unflatten(0, (-1, ctx.k))
        return rows.sum(1), None, None, None


class _Combine(torch.autograd.Function):  # type: ignore[misc]
    """The sum over each token's k rows of y [n_tok * k, D] in expert order -> [n_tok, D]."""

    @staticmethod
    def forward(ctx: Any, y: Any, token: Any, inverse: Any, k: int) -> Any:
        ctx.save_for_backward(token)
        return y.index_select(0, inverse).unflatten(0, (-1, k)).sum(1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (token,) = ctx.saved_tensors
        return grads[0].index_select(0, token), None, None, None


def mix_experts(
    x: Any,
    chosen: Any,
    share: Any,
    first: Any,
    second: Any,
    activate: Callable[[Any, Any], Any],
) -> Any:
    """The weighted sum of the chosen experts' outputs.

    x         [n_tok, D]
    chosen    [n_tok, k]      expert ids
    share     [n_tok, k]      weight of each
    first     [E, 2F, D]      gate and up, as the family orders the rows
    second    [E, D, F]
    activate  takes [n_row, 2F] and the rows' expert ids [n_row], gives [n_row, F]
    returns   [n_tok, D]
    """
    k = chosen.shape[1]
    expert, order = chosen.flatten().sort(stable=True)
    inverse = order.argsort()
    token = order // k
    sizes = torch.bincount(expert, minlength=len(first)).tolist()
    rows = _Dispatch.apply(x, token, inverse, k)
    hidden = activate(_per_expert(rows, first, sizes), expert)
    hidden = hidden * share.flatten().index_select(0, order).to(hidden.dtype)[:, None]
    return _Combine.apply(_per_expert(hidden, second, sizes), token, inverse, k)


def _per_expert(rows: Any, weight: Any, sizes: list[int]) -> Any:
    parts = zip(rows.split(sizes), weight.to(rows.dtype).unbind(0), strict=True)
    return torch.cat([F.linear(part, matrix) for part, matrix in parts])


def balance_loss(probabilities: Any, chosen: Any) -> Any:
    """1 where all experts are used alike, more where not (Switch Transformer, arXiv 2101.03961).

    probabilities [n_tok, E] of the router's softmax over all experts; chosen [n_tok, k].
    """
    return probabilities.shape[1] * (usage(chosen, probabilities.shape[1]) @ probabilities.mean(0))


def usage(chosen: Any, n_expert: int) -> Any:
    """The share of choices that fell on each expert, [E] float32."""
    return torch.bincount(chosen.flatten(), minlength=n_expert).float() / chosen.numel()
