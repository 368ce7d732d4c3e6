"""In which part of a model an op runs, found out without knowing the architecture.

A model file takes the weights of layer i from `weights.layers` when layer i begins, and touches a
tensor outside the layers again when the head begins. The first matrix of activations that an op
reads in a part is the residual stream as the part before left it.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Literal, SupportsIndex

import numpy as np

from junto.models.loading import Weights
from junto.ops.views import F32

Part = int | Literal["input", "head"]
"""A layer by its number, or what comes before the first and after the last."""


class Places:
    """Follows one forward pass.

    weights   what `forward` is to be given in place of the model's own
    part      where it is now
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = Weights(weights.whole, _Watched(weights.layers, self._enter))
        self.part: Part = "input"
        self._is_fresh = False
        self._last = len(weights.layers) - 1
        self._outside = {id(value) for _, value in fields_of(weights.whole) if value is not None}

    def restart(self) -> None:
        """A forward pass begins."""
        self.part, self._is_fresh = "input", False

    def stream(self, args: tuple[Any, ...]) -> F32 | None:
        """Note an op; the residual stream [n_tok, n_embd] if the op is the first to read it."""
        if self.part == self._last and any(id(value) in self._outside for value in args):
            self._enter("head")
        if not self._is_fresh or not args or not is_stream(args[0]):
            return None
        self._is_fresh = False
        stream: F32 = args[0]
        return stream

    def _enter(self, part: Part) -> None:
        self.part, self._is_fresh = part, True


class _Watched(tuple[Any, ...]):
    """Layers that say when they are taken."""

    _enter: Callable[[Part], None]

    def __new__(cls, layers: tuple[Any, ...], enter: Callable[[Part], None]) -> "_Watched":
        watched = super().__new__(cls, layers)
        watched._enter = enter
        return watched

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, SupportsIndex):
            self._enter(range(len(self))[index])
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Any]:
        for i, layer in enumerate(super().__iter__()):
            self._enter(i)
            yield layer


def is_stream(value: object) -> bool:
    """Whether it is a float32 matrix of activations."""
    return isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 2


def fields_of(holder: Any) -> list[tuple[str, Any]]:
    """Names and values of a dataclass of tensors."""
    return [(field.name, getattr(holder, field.name)) for field in dataclasses.fields(holder)]
