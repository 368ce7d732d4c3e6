"""Steps of one model that run as plans: a forward pass recorded once for each shape of batch.

A plan is the list of kernel calls that the forward pass made, on the arrays that it made. A later
step of that shape fills what differs (embedded tokens, angles, where sequences stand) and runs the
list. A forward pass that cannot be recorded runs in Python, always; it is not tried again.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from junto._kernels import Plan, ThreadPool
from junto.ops.contract import Forward, Ops, StepCache
from junto.ops.cpu.fixed_views import DeltaGroup, KVGroup
from junto.ops.cpu.recorder import Fill, RecordedBatch, RecordedCache, Recorder
from junto.ops.cpu.traced import Traced, plain
from junto.ops.views import F32, Batch

N_ROW = 16
"""Rows of the largest batch that is planned: beyond it Python's share is small anyway."""

N_PLAN = 4
"""Plans that a model keeps, each with the activations of a step: the ones used last."""

Shape = tuple[int, int]
"""Rows and spans of a batch."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A recorded step; it keeps the arrays that its calls point into."""

    calls: Plan
    fills: list[Fill]
    groups: list[KVGroup | DeltaGroup]
    logits: F32

    def has_moved(self, cache: StepCache, batch: Batch) -> bool:
        """Whether storage of the cache is another than that of the recorded step."""
        return any(group.has_moved(_view(group, cache, batch)) for group in self.groups)

    def run(self, cache: StepCache, batch: Batch) -> F32 | None:
        """Logits of a step of this shape; None if its block tables have outgrown the plan."""
        if not all(group.write(_view(group, cache, batch)) for group in self.groups):
            return None
        for fill in self.fills:
            fill(batch)
        self.calls.run()
        return self.logits.copy()


class Plans:
    """The plans of one forward pass.

    refused   shapes whose forward pass cannot be recorded, and why
    """

    def __init__(self, ops: Ops, pool: ThreadPool) -> None:
        self.refused: dict[Shape, str] = {}
        self._plans: OrderedDict[Shape, StepPlan] = OrderedDict()
        self._ops = ops
        self._pool = pool

    def __len__(self) -> int:
        return len(self._plans)

    def run(self, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        """Logits of a step."""
        shape = (len(batch.token_ids), len(batch.spans))
        if shape[0] > N_ROW or len(batch.logit_rows) != shape[0] or shape in self.refused:
            return forward(self._ops, batch, cache)
        plan = self._plans.get(shape)
        if plan is not None and plan.has_moved(cache, batch):
            plan = None
            self._plans.clear()  # they all hold storage that has moved
        logits = None if plan is None else plan.run(cache, batch)
        if logits is None:
            return self._record(shape, forward, batch, cache)
        self._plans.move_to_end(shape)
        return logits

    def _record(self, shape: Shape, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        with Recorder(self._ops, self._pool) as recorder:
            stand_ins: Any = RecordedBatch(batch, recorder), RecordedCache(cache, batch, recorder)
            ops: Any = recorder
            logits: Any = forward(ops, *stand_ins)
        result: F32 = np.array(plain(logits))
        if not isinstance(logits, Traced):
            recorder.give_up("logits that no op made")
        if recorder.reason is not None:
            self.refused[shape] = recorder.reason
            return result
        groups = list(recorder.groups.values())
        self._plans.pop(shape, None)
        self._plans[shape] = StepPlan(recorder.plan, recorder.fills, groups, logits.array)
        while len(self._plans) > N_PLAN:
            self._plans.popitem(last=False)
        return result


def _view(group: KVGroup | DeltaGroup, cache: StepCache, batch: Batch) -> Any:
    """The view of a group's layer in this step."""
    look = cache.kv if isinstance(group, KVGroup) else cache.delta
    return look(group.layer, batch)
