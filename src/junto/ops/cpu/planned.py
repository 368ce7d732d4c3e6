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
from junto.ops.cpu.recorder import Allocating, Fill, RecordedBatch, RecordedCache, Recorder
from junto.ops.cpu.traced import Traced, plain
from junto.ops.views import F32, Batch

N_ROW = 32
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

    def views(self, cache: StepCache, batch: Batch) -> list[Any]:
        """What one layer of each group sees of a step."""
        return [
            (cache.kv if isinstance(group, KVGroup) else cache.delta)(group.layer, batch)
            for group in self.groups
        ]

    def takes(self, views: list[Any]) -> bool:
        """Take where the sequences of a step stand; False if another plan must be made for it."""
        pairs = list(zip(self.groups, views, strict=True))
        is_there = not any(group.has_moved(view) for group, view in pairs)
        return is_there and all(group.write(view) for group, view in pairs)

    def run(self, batch: Batch) -> F32:
        """Logits of a step that it has taken."""
        for fill in self.fills:
            fill(batch)
        self.calls.run()
        return self.logits.copy()


class Plans:
    """The plans of one forward pass.

    refused   shapes whose forward pass cannot be recorded, and why
    """

    def __init__(self, ops: Ops, allocating: Allocating, pool: ThreadPool) -> None:
        self.refused: dict[Shape, str] = {}
        self._plans: OrderedDict[Shape, StepPlan] = OrderedDict()
        self._ops = ops
        self._allocating = allocating
        self._pool = pool

    def __len__(self) -> int:
        return len(self._plans)

    def run(self, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        """Logits of a step."""
        shape = (len(batch.token_ids), len(batch.spans))
        if shape[0] > N_ROW or shape in self.refused or not _asks_for_all(batch):
            return forward(self._ops, batch, cache)
        plan = self._plans.get(shape)
        if plan is None or not plan.takes(plan.views(cache, batch)):
            return self._record(shape, forward, batch, cache)
        self._plans.move_to_end(shape)
        return plan.run(batch)

    def let_go(self) -> None:
        """Forget all plans: storage of the cache is about to move."""
        self._plans.clear()

    def _record(self, shape: Shape, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        self._plans.pop(shape, None)
        cache.hold(self)
        with Recorder(self._ops, self._allocating, self._pool) as recorder:
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
        self._plans[shape] = StepPlan(recorder.plan, recorder.fills, groups, logits.array)
        while len(self._plans) > N_PLAN:
            self._plans.popitem(last=False)
        return result


def _asks_for_all(batch: Batch) -> bool:
    """Whether the logits of every row are wanted, in order."""
    rows: list[int] = batch.logit_rows.tolist()
    return rows == list(range(len(batch.token_ids)))
