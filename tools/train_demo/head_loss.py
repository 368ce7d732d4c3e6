"""Cross entropy over a vocabulary without ever holding all its scores.

Scores, loss and gradient are made for a few hundred tokens at a time, while they are in the cache;
the forward pass leaves the gradients ready. Knows no model: a matrix of states and one of outputs.
"""

from typing import Any

import torch

N_AT_ONCE = 256


class _HeadLoss(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, hidden: Any, output: Any, targets: Any, shares: Any) -> Any:
        half = torch.bfloat16
        matrix = output.to(half)
        loss = hidden.new_zeros(())
        by_hidden = torch.empty_like(hidden)
        by_output = torch.zeros_like(output)
        for start in range(0, len(hidden), N_AT_ONCE):
            some = slice(start, start + N_AT_ONCE)
            states, target, share = hidden[some].to(half), targets[some, None], shares[some, None]
            scores = (states @ matrix.T).float()
            total = scores.logsumexp(1, keepdim=True)
            loss += ((total - scores.gather(1, target)) * share).sum()
            slope = scores.sub_(total).exp_().scatter_add_(1, target, -torch.ones_like(share))
            slope = slope.mul_(share).to(half)
            by_hidden[some] = slope @ matrix
            by_output += slope.T @ states
        ctx.save_for_backward(by_hidden, by_output)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        by_hidden, by_output = ctx.saved_tensors
        return by_hidden * grads[0], by_output * grads[0], None, None


def head_loss(hidden: Any, output: Any, targets: Any, weights: Any) -> Any:
    """Cross entropy of output @ hidden, averaged by weight, in nats.

    hidden   [n_row, n_tok, D] float32
    output   [n_vocab, D] float32
    targets  [n_row, n_tok] ids
    weights  [n_row, n_tok]
    Products are in bfloat16, everything else in float32.
    """
    shares = (weights / weights.sum()).flatten()
    return _HeadLoss.apply(hidden.float().flatten(0, 1), output, targets.flatten(), shares)
