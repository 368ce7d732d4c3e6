"""An `Ops` that records: each op runs, and its kernel calls go to a plan.

A model's forward pass runs once with it, on a batch and a cache that stand for the step's own. What
of a step can differ from the next reaches kernels through arrays that are filled again: embedded
tokens and angles by `fills`, where sequences stand by `groups`. Everything else that ops are given
is either traced or the same in every step.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from junto._kernels import Plan, ThreadPool, copy, plain_sum
from junto.ops.contract import Angles, Ops, Rotation, Routing, StepCache, Weight
from junto.ops.cpu.arena import Arena, Empty, Lease
from junto.ops.cpu.fixed_views import DeltaGroup, KVGroup
from junto.ops.cpu.traced import Opaque, Traced, plain
from junto.ops.views import F32, Batch

_BY_ROW = ("rms_norm", "layer_norm", "gated_rms_norm", "sigmoid_gate", "gelu", "swiglu")
TAKE_STRIDES = frozenset((*_BY_ROW, "rope", "short_conv", "gated_delta_rule"))
"""Ops that read rows which lie apart; all others get contiguous arrays."""

Fill = Callable[[Batch], None]

Allocating = Callable[[Empty], Ops]
"""Makes a backend whose results lie in arrays that are made so."""


class Recorder:
    """Records ops on a pool, from `__enter__` to `__exit__`.

    reason   why the step cannot be recorded; None while it can
    """

    def __init__(self, ops: Ops, allocating: Allocating, pool: ThreadPool) -> None:
        self.plan = Plan(pool)
        self.fills: list[Fill] = []
        self.groups: dict[Hashable, KVGroup | DeltaGroup] = {}
        self.reason: str | None = None
        self._arena = Arena()
        self._ops = ops
        self._recorded = allocating(self._arena.empty)
        self._pool = pool

    def __enter__(self) -> "Recorder":
        self.plan.record()
        return self

    def __exit__(self, *exception: object) -> None:
        self.plan.stop()

    def give_up(self, why: str) -> None:
        """The step cannot be recorded; it goes on as any other."""
        self.reason = self.reason or why
        self._arena.reuses = False  # from now on, who still needs an array is not known

    def copied(self, x: Traced) -> Traced:
        """A contiguous copy, made again in each run."""
        if x.dtype != np.float32 or x.ndim > 4:
            self.give_up(f"a copy of {x.ndim} axes of {x.dtype}")
        y = self._arena.empty(x.shape, x.dtype)
        if self.reason is None:
            copy(self._pool, x.array, y)
        else:
            y[...] = x.array
        return self._leased(y)

    def summed(self, a: Traced, b: Traced) -> Traced:
        """The sum of two arrays of one shape, made again in each run."""
        a, b = self._whole(a), self._whole(b)
        y = self._arena.empty(a.shape, np.float32)
        plain_sum(self._pool, a.array, b.array, y)
        return self._leased(y)

    def _leased(self, array: F32) -> Traced:
        return Traced(array, self, self._arena.leases()[id(array)])

    def _whole(self, x: Any) -> Any:
        """An argument, contiguous where it is a traced array."""
        is_apart = isinstance(x, Traced) and not x.array.flags.c_contiguous
        return self.copied(x) if is_apart else x

    def embed(self, table: Weight, token_ids: Any) -> Any:
        """Rows of a table, which each run looks up by its own batch."""
        ops, field = self._ops, self._field(token_ids)
        rows = np.array(ops.embed(table, plain(token_ids)))

        def fill(batch: Batch) -> None:
            rows[...] = ops.embed(table, getattr(batch, field))

        self.fills.append(fill)
        return Traced(rows, self)

    def angles(self, positions: Any, rotation: Rotation) -> Any:
        """Angles, which each run works out for its own positions."""
        ops, field = self._ops, self._field(positions)
        angles = ops.angles(plain(positions), rotation)

        def fill(batch: Batch) -> None:
            now = ops.angles(getattr(batch, field), rotation)
            angles.cos[...], angles.sin[...] = now.cos, now.sin

        self.fills.append(fill)
        cos: Any = Traced(angles.cos, self)
        sin: Any = Traced(angles.sin, self)
        return Angles(cos, sin, angles.pairs)

    def _field(self, given: Any) -> str:
        """The field of the batch that `given` is."""
        field = given.given if isinstance(given, Traced) else ""
        if not field:
            self.give_up("tokens or positions other than the batch's")
        return field

    def __getattr__(self, name: str) -> Any:
        op = getattr(self._recorded, name)
        return partial(self._call, name, op) if callable(op) else op

    def _call(self, name: str, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        n_before = len(self.plan)
        if name not in TAKE_STRIDES:
            args = tuple(self._whole(arg) for arg in args)
            kwargs = {key: self._whole(arg) for key, arg in kwargs.items()}
        result = op(*plain(args), **plain(kwargs))
        if len(self.plan) == n_before:
            self.give_up(f"{name} calls no kernel")
        leases = self._arena.leases()
        return result if self.reason else self._traced(result, leases)

    def _traced(self, result: Any, leases: dict[int, Lease]) -> Any:
        """Arrays of a result as traced ones."""
        match result:
            case np.ndarray():
                return Traced(result, self, leases.get(id(result)))
            case tuple():
                return tuple(self._traced(part, leases) for part in result)
            case Routing():
                ids = self._traced(result.expert_ids, leases)
                return Routing(ids, self._traced(result.weights, leases))
        self.give_up(f"an op that gives {type(result).__name__}")
        return result


class RecordedBatch:
    """Stands for a batch: its arrays are traced."""

    def __init__(self, batch: Batch, recorder: Recorder) -> None:
        self.token_ids = Traced(batch.token_ids, recorder, given="token_ids")
        self.positions = Traced(batch.positions, recorder, given="positions")
        self.logit_rows = Traced(batch.logit_rows, recorder, given="logit_rows")
        self._batch = batch
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        self._recorder.give_up(f"Batch.{name}")
        return getattr(self._batch, name)


class RecordedCache:
    """Stands for a cache: its views are those of groups, which ops alone look into."""

    def __init__(self, cache: StepCache, batch: Batch, recorder: Recorder) -> None:
        self._cache = cache
        self._batch = batch
        self._recorder = recorder

    def kv(self, layer: int, batch: Any) -> Any:
        """Keys and values of an attention layer."""
        view = self._cache.kv(layer, self._batch)
        group = self._group(layer, lambda: KVGroup(layer, view))
        assert isinstance(group, KVGroup), "layers that remember alike are of one kind"
        return Opaque(group.fixed(view), self._recorder)

    def delta(self, layer: int, batch: Any) -> Any:
        """Anchored state of a DeltaNet layer."""
        view = self._cache.delta(layer, self._batch)
        group = self._group(layer, lambda: DeltaGroup(layer, view))
        assert isinstance(group, DeltaGroup), "layers that remember alike are of one kind"
        return Opaque(group.fixed(view), self._recorder)

    def _group(self, layer: int, make: Callable[[], KVGroup | DeltaGroup]) -> KVGroup | DeltaGroup:
        state = self._cache.layers[layer]
        if state not in self._recorder.groups:
            self._recorder.groups[state] = make()
        return self._recorder.groups[state]

    def __getattr__(self, name: str) -> Any:
        self._recorder.give_up(f"Cache.{name}")
        return getattr(self._cache, name)
