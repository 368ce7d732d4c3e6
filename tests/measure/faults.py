"""Kernels that are wrong on purpose."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from junto.ops.contract import Routing
from junto.ops.cpu import Cpu


def spoil(monkeypatch: pytest.MonkeyPatch, op: str, change: Callable[[Any], Any]) -> None:
    """Let an op of the cpu backend give something else than it computed."""
    right = getattr(Cpu, op)

    def wrong(self: Cpu, *args: Any, **kwargs: Any) -> Any:
        return change(right(self, *args, **kwargs))

    monkeypatch.setattr(Cpu, op, wrong)


def one_value_larger(y: np.ndarray) -> np.ndarray:
    """The first value is off by the largest of all."""
    y.reshape(-1)[0] += np.abs(y).max()
    return y


def not_finite(y: np.ndarray) -> np.ndarray:
    """The last value is no number."""
    y.reshape(-1)[-1] = np.nan
    return y


def next_expert(routing: Routing) -> Routing:
    """Every expert is the one after it."""
    return Routing(routing.expert_ids + 1, routing.weights)
