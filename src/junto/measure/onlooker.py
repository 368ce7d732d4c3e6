"""An `Ops` that looks on: every computation passes through one method before a backend does it.

Whoever counts, times or compares ops derives from it and overrides `compute`.
"""

from contextlib import AbstractContextManager
from functools import partial
from typing import Any, cast

from junto.ops.contract import Forward, Ops, StepCache
from junto.ops.views import F32, Batch

PLAIN = frozenset(["name", "notes", "step", "loading", "is_keeping", "settle", "table", "weight"])
"""What an `Ops` has besides computations."""


class Onlooker:
    """Hands every op on to `ops`."""

    def __init__(self, ops: Ops) -> None:
        self.ops = ops

    def compute(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `ops` gives for the op of this name."""
        return getattr(self.ops, op)(*args, **kwargs)

    def step(self) -> AbstractContextManager[None]:
        """Around the ops of one step."""
        return self.ops.step()

    def run(self, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        """Every op of the step is looked on at."""
        return forward(self.as_ops(), batch, cache)

    def as_ops(self) -> Ops:
        """This object where an `Ops` is asked for."""
        return cast(Ops, self)

    def __getattr__(self, name: str) -> Any:
        if name in PLAIN:
            return getattr(self.ops, name)
        getattr(self.ops, name)  # an op that is not there is AttributeError now, not when called
        return partial(self._computed, name)

    def _computed(self, op: str, *args: Any, **kwargs: Any) -> Any:
        return self.compute(op, args, kwargs)
