"""How often each expert of each layer is chosen while a model reads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from junto.engine.runner import Runner
from junto.measure.onlooker import Onlooker

_N_STEP = 512


def expert_usage(runner: Runner, token_ids: Sequence[int]) -> npt.NDArray[np.int64]:
    """Counts [n_moe_layer, n_expert] of choices while one fresh sequence is read.

    The runner's ops are looked on at meanwhile, and are its own again afterwards.
    """
    ops, cache = runner.ops, runner.cache
    onlooker = _Router(ops)
    runner.ops = onlooker.as_ops()
    slot = cache.open()
    counts: list[npt.NDArray[np.int64]] = []
    try:
        for start in range(0, len(token_ids), _N_STEP):
            runner.step([(slot, token_ids[start : start + _N_STEP])])
            counts.append(onlooker.taken())
    finally:
        runner.ops = ops
        cache.close(slot)
    total: npt.NDArray[np.int64] = np.stack(counts).sum(axis=0)
    return total


class _Router(Onlooker):
    """Counts the choices of every `route` of a step, in the order of the layers."""

    def __init__(self, ops: Any) -> None:
        super().__init__(ops)
        self._counts: list[npt.NDArray[np.int64]] = []

    def compute(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().compute(op, args, kwargs)
        if op == "route":
            n_expert = args[0].shape[1]
            self._counts.append(np.bincount(result.expert_ids.ravel(), minlength=n_expert))
        return result

    def taken(self) -> npt.NDArray[np.int64]:
        """The counts since the last call, [n_moe_layer, n_expert]."""
        counts, self._counts = self._counts, []
        return np.stack(counts)
