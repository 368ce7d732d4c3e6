"""The CPU backend as one object: it holds the threads and the level, and calls the kernels."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from junto import _kernels
from junto.errors import RequestError
from junto.formats.tensor import Tensor
from junto.ops.contract import (
    I64,
    Angles,
    Forward,
    Ops,
    Rotation,
    Routing,
    Sampling,
    StepCache,
    SwiGLU,
    Weight,
    check_token_ids,
)
from junto.ops.cpu.arena import Empty
from junto.ops.cpu.planned import Plans
from junto.ops.cpu.processors import clamped, default_threads, usable_processors
from junto.ops.cpu.recycled import Recycler
from junto.ops.cpu.spans import delta_rows, kv_rows
from junto.ops.cpu.store import InMemory, Store
from junto.ops.cpu.weights import pack, packed, rows_of, unpacked
from junto.ops.views import F32, I32, Batch, DeltaView, KVView


class Cpu:
    """All ops of `junto.ops.contract.Ops` on C++ kernels.

    n_threads   threads that share a kernel's work, the caller included
    level       instruction set, one of `_kernels.levels()`; None: `JUNTO_ISA`, or the best
    store       where packed weights go, made for the pool of threads; memory if left out
    """

    name = "cpu"

    def __init__(
        self,
        n_threads: int | None = None,
        level: str | None = None,
        store: Callable[[_kernels.ThreadPool], Store] | None = None,
    ) -> None:
        self.level = choose_level(level or os.environ.get("JUNTO_ISA"))
        if n_threads is not None and n_threads < 1:
            raise RequestError(f"n_threads is {n_threads}, expected at least 1")
        usable = usable_processors()
        self._clamped = clamped(n_threads, usable)
        self._pool = _kernels.ThreadPool(min(n_threads or default_threads(), usable))
        self._store = store(self._pool) if store else InMemory()
        self._recycler = Recycler()
        self._empty: Empty = self._recycler.empty
        self._plans: WeakKeyDictionary[Forward, Plans] = WeakKeyDictionary()

    @property
    def n_threads(self) -> int:
        """Threads that share a kernel's work, the caller included."""
        return self._pool.n_threads

    @property
    def notes(self) -> tuple[str, ...]:
        """On threads, and on where packed weights could not go."""
        return (*self._clamped, *self._store.notes)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """What is put off begins when all weights are taken."""
        try:
            yield
        except BaseException:
            self._store.abandon()
            raise
        self._store.finish(self.n_threads)

    @property
    def is_keeping(self) -> bool:
        """Whether a file of packed weights is being made for the next start."""
        return self._store.is_keeping

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Pack all experts, and wait until they are kept for the next start."""
        self._store.settle(tell)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Keep the workers spinning, so that a kernel costs less than a microsecond to share.

        After it comes a little of what was put off at loading.
        """
        backlog = self._store.backlog
        try:
            backlog.begin_step()
            self._recycler.begin_step()
            self._pool.wake()
            yield
        except BaseException:
            backlog.rest()
            raise
        finally:
            self._pool.rest()
        backlog.end_step(self._pool)

    def run(self, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        """Logits of a step, by a plan where the batch is small and no expert is to be packed."""
        if not self._store.backlog.is_done:
            return forward(self, batch, cache)
        plans = self._plans.get(forward)
        if plans is None:
            plans = self._plans[forward] = Plans(self, self._allocating, self._pool)
        return plans.run(forward, batch, cache)

    def _allocating(self, empty: Empty) -> Ops:
        """The same backend, whose results lie in arrays that `empty` makes."""
        other = copy(self)
        other._empty = empty
        return other

    def weight(self, tensor: Tensor | Sequence[Tensor]) -> Weight:
        """Pack a matrix; experts of a stack are packed when they are needed."""
        return pack(tensor, self._pool, self._store)

    def table(self, tensor: Tensor) -> Weight:
        """Leave a matrix of which rows are looked up where it is."""
        return unpacked(tensor)

    def embed(self, table: Weight, token_ids: I32) -> F32:
        """Rows of the table, decoded from the file's own bytes."""
        check_token_ids(token_ids, table.shape[0])
        tensor = rows_of(table)
        rows = np.ascontiguousarray(tensor.data[token_ids])
        y = np.empty((len(rows), table.shape[1]), np.float32)
        _kernels.decode_rows(self.level, self._pool, tensor.type.name, rows, y)
        return y

    def linear(self, x: F32, weight: Weight, bias: F32 | None = None) -> F32:
        """x @ weight.T + bias."""
        x = np.ascontiguousarray(x)
        y = self._empty((len(x), weight.shape[0]), np.float32)
        _kernels.linear(self.level, self._pool, packed(weight).matrix, x, bias, y)
        return y

    def rms_norm(self, x: F32, weight: F32, eps: float) -> F32:
        """x / sqrt(mean(x^2) + eps) * weight."""
        y = self._empty(x.shape, np.float32)
        _kernels.rms_norm(self.level, self._pool, x, weight, eps, y)
        return y

    def layer_norm(self, x: F32, weight: F32, bias: F32, eps: float) -> F32:
        """(x - mean) / sqrt(variance + eps) * weight + bias."""
        y = self._empty(x.shape, np.float32)
        _kernels.layer_norm(self.level, self._pool, x, weight, bias, eps, y)
        return y

    def gated_rms_norm(self, x: F32, weight: F32, gate: F32, eps: float) -> F32:
        """rms_norm(x) * silu(gate)."""
        y = self._empty(x.shape, np.float32)
        _kernels.gated_rms_norm(self.level, self._pool, x, weight, gate, eps, y)
        return y

    def sigmoid_gate(self, x: F32, gate: F32) -> F32:
        """X * sigmoid(gate)."""
        y = self._empty(x.shape, np.float32)
        _kernels.sigmoid_gate(self.level, self._pool, x, gate, y)
        return y

    def gelu(self, x: F32) -> F32:
        """GELU in its tanh form."""
        y = self._empty(x.shape, np.float32)
        _kernels.gelu(self.level, self._pool, x, y)
        return y

    def swiglu(self, gate: F32, up: F32, form: SwiGLU) -> F32:
        """Gate and up become one."""
        y = self._empty(gate.shape, np.float32)
        limit = form.limit or 0.0
        _kernels.swiglu(self.level, self._pool, gate, up, limit, form.alpha, y)
        return y

    def angles(self, positions: I32, rotation: Rotation) -> Angles:
        """Cosines and sines, worked out in float64."""
        shape = (len(positions), len(rotation.inv_freq))
        cos, sin = self._empty(shape, np.float32), self._empty(shape, np.float32)
        _kernels.rope_table(positions, rotation.inv_freq, rotation.scale, cos, sin)
        return Angles(cos, sin, rotation.pairs)

    def rope(self, x: F32, angles: Angles) -> F32:
        """Turn the first dimensions of each head."""
        y = self._empty(x.shape, np.float32)
        adjacent = angles.pairs == "adjacent"
        _kernels.rope(self.level, self._pool, x, angles.cos, angles.sin, adjacent, y)
        return y

    def attention(
        self,
        q: F32,
        k: F32,
        v: F32,
        view: KVView,
        *,
        scale: float,
        window: int | None = None,
        sinks: F32 | None = None,
    ) -> F32:
        """Store k and v in the cache, then attend causally."""
        q, k, v = (np.ascontiguousarray(part) for part in (q, k, v))
        y = self._empty(q.shape, np.float32)
        rows = kv_rows(view)
        inputs = (self.level, self._pool, q, k, v, view.k, view.v, rows.spans, rows.blocks)
        if view.aged is None:
            _kernels.attention(*inputs, scale, window, sinks, y)
            return y
        assert window is None, "blocks age only where a query sees all positions"
        aged = view.aged
        codes = (aged.k.codes, aged.v.codes, aged.k.scales, aged.v.scales)
        by_age = (*codes, rows.aged_spans, rows.aged_blocks, aged.n_pinned, aged.n_recent)
        _kernels.attention_by_age(*inputs, *by_age, scale, sinks, y)
        return y

    def short_conv(self, x: F32, weight: F32, view: DeltaView) -> F32:
        """Causal depthwise convolution followed by SiLU."""
        y = self._empty(x.shape, np.float32)
        spans = delta_rows(view)
        _kernels.short_conv(self.level, self._pool, x, weight, view.conv, spans, y)
        return y

    def gated_delta_rule(
        self, q: F32, k: F32, v: F32, decay: F32, beta: F32, view: DeltaView
    ) -> F32:
        """Gated delta rule from the anchored state."""
        y = self._empty(v.shape, np.float32)
        _kernels.gated_delta_rule(
            self.level,
            self._pool,
            q,
            k,
            v,
            decay,
            beta,
            view.state,
            view.k,
            view.u,
            view.decay,
            delta_rows(view),
            y,
        )
        return y

    def delta_gates(self, alpha: F32, beta: F32, ssm_a: F32, ssm_dt: F32) -> tuple[F32, F32]:
        """Log-decay and sigmoid(beta)."""
        decay, opened = self._empty(alpha.shape, np.float32), self._empty(beta.shape, np.float32)
        _kernels.delta_gates(self.level, self._pool, alpha, beta, ssm_a, ssm_dt, decay, opened)
        return decay, opened

    def route(
        self, logits: F32, n_used: int, *, softmax: Literal["all", "chosen"], scale: float = 1.0
    ) -> Routing:
        """Choose experts."""
        shape = (len(logits), n_used)
        ids, weights = self._empty(shape, np.int64), self._empty(shape, np.float32)
        _kernels.route(self._pool, logits, softmax == "all", scale, ids, weights)
        return Routing(ids, weights)

    def experts(
        self,
        x: F32,
        routing: Routing,
        gate: Weight,
        up: Weight,
        down: Weight,
        form: SwiGLU,
        biases: tuple[F32, F32, F32] | None = None,
    ) -> F32:
        """Weighted sum of the routed experts."""
        x = np.ascontiguousarray(x)
        y = self._empty(x.shape, np.float32)
        bias_gate, bias_up, bias_down = biases or (None, None, None)
        _kernels.experts(
            self.level,
            self._pool,
            x,
            routing.expert_ids,
            routing.weights,
            self._with_experts(gate, routing.expert_ids),
            self._with_experts(up, routing.expert_ids),
            self._with_experts(down, routing.expert_ids),
            form.limit or 0.0,
            form.alpha,
            bias_gate,
            bias_up,
            bias_down,
            y,
        )
        return y

    def _with_experts(self, weight: Weight, expert_ids: I64) -> _kernels.PackedMatrix:
        """A stack in which these experts are packed."""
        stack = packed(weight).stack
        if not stack.is_whole:
            stack.need(expert_ids.ravel().tolist(), self._pool)
        return stack.matrix

    def sample(self, logits: F32, how: Sequence[Sampling], uniform: Sequence[float]) -> list[int]:
        """One token for each row."""
        rows = zip(how, uniform, strict=True)
        settings = [(s.temperature, s.top_k, s.top_p, s.min_p, u) for s, u in rows]
        return _kernels.sample(self.level, self._pool, logits, np.array(settings, np.float64))


def choose_level(wanted: str | None) -> str:
    """The level asked for, or the best; RequestError if it does not run here."""
    levels = _kernels.levels()
    if wanted is None:
        return levels[0]
    if wanted not in levels:
        raise RequestError(f"JUNTO_ISA is {wanted!r}; this machine runs: {', '.join(levels)}")
    return wanted
