"""What a model may do between ops is recorded, or the step is refused; its results are right."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from junto.cache import AttentionState, Cache
from junto.errors import RequestError
from junto.formats.tensor import Tensor
from junto.ops.contract import Ops, Weight
from junto.ops.cpu import Cpu
from junto.ops.cpu.planned import N_PLAN, N_ROW, Plans
from junto.ops.views import F32, Batch
from tests.ops.nearness import normal

N_VOCAB, N_EMBD, N_OUT = 11, 12, 7
Between = Callable[[Any, Any, Any, Any], Any]
"""What a model does with ops, x, the batch and the cache."""


class Small:
    """A forward pass of two matrices, with something between them; it counts its own passes."""

    def __init__(self, between: Between = lambda ops, x, batch, cache: x) -> None:
        self.ops = Cpu(1)
        self.n_pass = 0
        self._between = between
        self._table = self.weight(N_VOCAB, N_EMBD)
        self._outs = {n: self.weight(N_OUT, n) for n in (4, 6, N_EMBD)}
        self._cache = Cache([AttentionState(1, 2)], n_slot=64, n_ctx=100)
        self.plans = Plans(self.ops, self.ops._allocating, self.ops._pool)

    def weight(self, n_out: int, n_in: int) -> Weight:
        """A matrix of random numbers."""
        return self.ops.weight(Tensor.from_array("w", normal(1, n_out, n_in), "small.gguf"))

    def forward(self, ops: Ops, batch: Batch, cache: Any) -> F32:
        self.n_pass += 1
        x = ops.embed(self._table, batch.token_ids)
        x = ops.rms_norm(x, np.ones(N_EMBD, np.float32), 1e-6)
        x = self._between(ops, x, batch, cache)[batch.logit_rows]
        return ops.linear(x, self._outs[x.shape[-1]])

    def step(self, ids: list[int]) -> F32:
        """Logits by a plan if there is one."""
        return self.plans.run(self.forward, self._batch(ids), self._cache)

    def expected(self, ids: list[int]) -> F32:
        """Logits op by op."""
        return self.forward(self.ops, self._batch(ids), self._cache)

    def _batch(self, ids: list[int]) -> Batch:
        return Batch.pack([(slot, 0, [token]) for slot, token in enumerate(ids)], all_logits=False)


RECORDED: dict[str, Between] = {
    "nothing": lambda ops, x, batch, cache: x,
    "a sum": lambda ops, x, batch, cache: x + x,
    "halves": lambda ops, x, batch, cache: _sum_of(np.split(x, 2, axis=1)),
    "slices": lambda ops, x, batch, cache: _sum_of([x[:, :6], x[..., 6:]]),
    "rows of an axis": lambda ops, x, batch, cache: _sum_of(
        list(x.reshape(len(x), 3, 4).swapaxes(0, 1))
    ),
    "heads exchanged": lambda ops, x, batch, cache: (
        x.reshape(len(x), 3, 4).swapaxes(1, 2).reshape(len(x), -1)
    ),
}

REFUSED: dict[str, Between] = {
    "numpy's functions": lambda ops, x, batch, cache: np.exp(x),
    "products": lambda ops, x, batch, cache: x * 2,
    "sums with constants": lambda ops, x, batch, cache: x + np.float32(1),
    "sums of unlike shapes": lambda ops, x, batch, cache: x + x[:1],
    "a sum written to an array": lambda ops, x, batch, cache: np.add(
        x, x, out=np.empty(x.shape, x.dtype)
    ),
    "other functions of arrays": lambda ops, x, batch, cache: np.concatenate([x, x], axis=1)[
        :, ::2
    ],
    "arrays made of it": lambda ops, x, batch, cache: np.asarray(x) + 1,
    "methods": lambda ops, x, batch, cache: x.clip(0, 1),
    "reductions": lambda ops, x, batch, cache: x - x.mean(axis=1, keepdims=True),
    "fancy indices": lambda ops, x, batch, cache: x[:, [*range(N_EMBD)][::-1]],
    "values": lambda ops, x, batch, cache: x if float(x[0, 0]) > 0 else x + x,
    "whole numbers": lambda ops, x, batch, cache: x[:, : 0 * int(x[0, 0]) + N_EMBD],
    "truth": lambda ops, x, batch, cache: x if bool(x[0, 0] > 0) else x + x,
    "a sum in place": lambda ops, x, batch, cache: _doubled_in_place(x),
    "values set": lambda ops, x, batch, cache: _set(x),
    "token ids": lambda ops, x, batch, cache: (
        x + (batch.token_ids[:, None] * np.ones(N_EMBD)).astype("f4")
    ),
    "positions": lambda ops, x, batch, cache: x + np.float32(np.asarray(batch.positions)[:, None]),
    "spans": lambda ops, x, batch, cache: x if batch.spans[0].slot == 0 else x + x,
    "the cache's lengths": lambda ops, x, batch, cache: x if cache.length(0) == 0 else x + x,
    "what a view holds": lambda ops, x, batch, cache: x + cache.kv(0, batch).k[:0].sum(),
}


def _sum_of(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _attended(ops: Ops, x: Any, view: Any) -> Any:
    heads = x.reshape(len(x), 6, 2)
    return x + ops.attention(heads, heads[:, :1], heads[:, 1:2], view, scale=1.0).reshape(x.shape)


def _set(x: Any) -> Any:
    x[:, 0] = 1
    return x


def _doubled_in_place(x: Any) -> Any:
    x += x
    return x


STEPS = [[3, 1, 4], [1, 5, 9], [2, 6, 5], [3, 5, 8]]


@pytest.mark.parametrize("what", RECORDED)
def test_steps_of_one_shape_run_python_once(what: str) -> None:
    small = Small(RECORDED[what])
    for ids in STEPS:
        np.testing.assert_array_equal(small.step(ids), small.expected(ids))
    assert small.plans.refused == {}
    assert small.n_pass == 1 + len(STEPS)


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_recorded_is_refused_for_good_and_right(what: str) -> None:
    small = Small(REFUSED[what])
    for ids in STEPS:
        np.testing.assert_array_equal(small.step(ids), small.expected(ids))
    assert list(small.plans.refused) == [(3, 3)]
    assert small.n_pass == 2 * len(STEPS)
    assert len(small.plans) == 0


def test_arrays_that_a_model_keeps_are_left_alone() -> None:
    """Once the record is given up, places of arrays are not taken again."""

    def keeps(ops: Ops, x: Any, batch: Any, cache: Any) -> Any:
        weight = np.full(N_EMBD, 3, np.float32)
        x = ops.rms_norm(x, weight, 1e-6)
        kept = x.T
        for _ in range(4):
            x = ops.linear(x, square)
        return kept.T + x

    small = Small(keeps)
    square = small.weight(N_EMBD, N_EMBD)
    np.testing.assert_array_equal(small.step(STEPS[0]), small.expected(STEPS[0]))


def test_another_cache_gets_a_plan_of_its_own() -> None:
    small = Small(lambda ops, x, batch, cache: _attended(ops, x, cache.kv(0, batch)))
    other = Cache([AttentionState(1, 2)], n_slot=2, n_ctx=100)
    batches = [Batch.pack([(0, pos, [3 + pos])], all_logits=False) for pos in range(2)]
    for cache in (small._cache, other):
        assert cache.open() == 0
    for batch in batches:
        rows = []
        for cache in (small._cache, other):
            cache.begin(batch)
            rows.append(small.plans.run(small.forward, batch, cache))
            cache.commit(batch)
        np.testing.assert_array_equal(rows[0], rows[1])
    keys = [cache.kv(0, batches[0]).k[..., :2] for cache in (small._cache, other)]
    np.testing.assert_array_equal(keys[0][:1], keys[1][:1])


def test_results_are_the_callers_own() -> None:
    small = Small()
    first = [small.step(ids) for ids in STEPS]
    for logits, ids in zip(first, STEPS, strict=True):
        np.testing.assert_array_equal(logits, small.expected(ids))
        logits[:] = 0
    np.testing.assert_array_equal(small.step(STEPS[0]), small.expected(STEPS[0]))


def test_large_batches_and_those_that_want_few_logits_run_op_by_op() -> None:
    small = Small()
    small.step([1] * (N_ROW + 1))
    batch = Batch.pack([(0, 0, [1, 2, 3])], all_logits=False)
    logits = small.plans.run(small.forward, batch, small._cache)
    np.testing.assert_array_equal(logits, small.expected([1, 2, 3])[2:])
    assert (len(small.plans), small.plans.refused) == (0, {})


def test_the_plans_used_last_are_kept() -> None:
    small = Small()
    for n in range(1, N_PLAN + 2):
        small.step([1] * n)
        small.step([2])
    assert len(small.plans) == N_PLAN
    n_pass = small.n_pass
    np.testing.assert_array_equal(small.step([3]), small.expected([3]))
    assert small.n_pass == n_pass + 1
    small.step([3] * 2)
    assert small.n_pass == n_pass + 2


def test_a_step_that_raises_leaves_the_plan_as_it_was() -> None:
    small = Small()
    small.step([1, 2])
    with pytest.raises(RequestError, match="token id 11 is outside the vocabulary"):
        small.step([1, N_VOCAB])
    n_pass = small.n_pass
    np.testing.assert_array_equal(small.step([3, 4]), small.expected([3, 4]))
    assert small.n_pass == n_pass + 1


def test_a_recording_that_raises_is_tried_again() -> None:
    small = Small()
    with pytest.raises(RequestError, match="token id 11 is outside the vocabulary"):
        small.step([1, N_VOCAB])
    for ids in ([1, 2], [3, 4]):
        np.testing.assert_array_equal(small.step(ids), small.expected(ids))
    assert (len(small.plans), small.plans.refused) == (1, {})


def test_arrays_of_a_cache_are_let_go_before_they_move() -> None:
    """Else a growing pool would lie in memory twice."""
    small = Small(lambda ops, x, batch, cache: _attended(ops, x, cache.kv(0, batch)))
    cache = small._cache
    slot = cache.open()
    batch = Batch.pack([(slot, 0, [1])], all_logits=False)
    cache.begin(batch)
    small.plans.run(small.forward, batch, cache)
    assert len(small.plans) == 1
    gone: list[str] = []
    weakref.finalize(cache.kv(0, batch).k, gone.append, "k")
    del batch
    gc.disable()
    try:
        cache.begin(Batch.pack([(cache.open(), 0, [1])], all_logits=False))
        assert gone == ["k"]
    finally:
        gc.enable()
    assert len(small.plans) == 0
