"""Muon for the matrices, AdamW for everything else, in one optimiser with one learning rate.

Muon (K. Jordan and others, 2024) replaces a matrix's momentum by the nearest orthogonal matrix,
found by a Newton-Schulz iteration; scaled by 0.2*sqrt(longer side) the step has the size of an
AdamW step (J. Liu and others, arXiv 2502.16982), so that one rate and one decay serve both. Experts
[E, out, in] are E matrices. State is created at the first step and is plain tensors.
"""

from typing import Any

import torch

MOMENTUM = 0.95
BETAS = (0.9, 0.97)
EPS = 1e-10
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
N_ITERATION = 5


class Optimizer:
    """Steps parameters by name; `is_matrix` says which ones Muon takes."""

    def __init__(self, named: dict[str, Any], matrices: set[str], decay: float) -> None:
        self.named = named
        self.matrices = matrices
        self.decay = decay
        self.n_step = 0
        self.state = {
            key: torch.zeros_like(value)
            for name, value in named.items()
            for key in ([f"m/{name}"] if name in matrices else [f"m/{name}", f"v/{name}"])
        }
        self.groups: dict[tuple[int, ...], list[str]] = {}
        for name in sorted(matrices):
            shape = tuple(named[name].shape[-2:])
            self.groups.setdefault(shape, []).append(name)

    def step(self, rate: float) -> None:
        """Move every parameter along its gradient and forget the gradients."""
        self.n_step += 1
        with torch.no_grad():
            for name, value in self.named.items():
                if name not in self.matrices and value.grad is not None:
                    self._adam(name, value, rate)
            for names in self.groups.values():
                self._muon(names, rate)
        for value in self.named.values():
            value.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The state, for a checkpoint."""
        return {"n_step": self.n_step, "state": self.state}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Take the state of a checkpoint."""
        self.n_step = saved["n_step"]
        for key, value in saved["state"].items():
            self.state[key].copy_(value)

    def _adam(self, name: str, value: Any, rate: float) -> None:
        mean, square = self.state[f"m/{name}"], self.state[f"v/{name}"]
        mean.lerp_(value.grad, 1 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(value.grad, value.grad, value=1 - BETAS[1])
        unbias = (1 - BETAS[1] ** self.n_step) ** 0.5 / (1 - BETAS[0] ** self.n_step)
        if value.ndim > 1:
            value.mul_(1 - rate * self.decay)
        value.addcdiv_(mean, square.sqrt().add_(EPS), value=-rate * unbias)

    def _muon(self, names: list[str], rate: float) -> None:
        momenta = []
        for name in names:
            mean, grad = self.state[f"m/{name}"], self.named[name].grad
            mean.lerp_(grad, 1 - MOMENTUM)
            momenta.append(grad.lerp(mean, MOMENTUM).view(-1, *grad.shape[-2:]))
        steps = orthogonal(torch.cat(momenta))
        scale = 0.2 * max(steps.shape[-2:]) ** 0.5
        at = 0
        for name, momentum in zip(names, momenta, strict=True):
            value = self.named[name]
            step = steps[at : at + len(momentum)].view(value.shape)
            value.mul_(1 - rate * self.decay).add_(step, alpha=-rate * scale)
            at += len(momentum)


def orthogonal(matrices: Any) -> Any:
    """Matrices [n, rows, columns] with the same singular vectors and singular values near 1."""
    x = matrices.bfloat16()
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.mT if is_tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(N_ITERATION):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if is_tall else x).float()
