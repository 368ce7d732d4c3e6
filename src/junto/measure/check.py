"""Compares a loaded model with the reference, part by part, on a few random tokens.

Three passes: in step (each op of the chosen parts in both backends, from the same inputs), held
(the fast backend alone, each chosen layer from the reference's input), and free (from the tokens to
the logits, with the reference's choice of experts). Each feeds a prompt and then one token more, so
that both prefill and decode run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from junto.engine.runner import Runner
from junto.formats.tensor import Tensor
from junto.measure.difference import (
    END_TO_END,
    ROUNDED,
    TWICE_ROUNDED,
    Difference,
    difference,
)
from junto.measure.forced import Forced
from junto.measure.lockstep import Lockstep, Row
from junto.measure.places import Part, Places
from junto.measure.twins import match
from junto.models.loading import Blueprint, take
from junto.models.table import Found
from junto.ops.contract import Ops
from junto.ops.reference import Reference
from junto.ops.views import F32

DECODED_BUDGET = 256 << 20
"""Bytes of decoded matrices that the reference may keep."""

FLOAT_LAYER = 2e-3
"""Bound of a layer, and of logits, where no matrix is quantised: keys may still be float16."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared.

    layers   numbers of the layers that run in both backends
    n_tok    tokens of the prompt; one more follows
    """

    layers: tuple[int, ...]
    n_tok: int
    seed: int = 0

    @property
    def n_part(self) -> int:
        """How often progress is told: layers and head, for the prompt and for one token."""
        return 2 * (len(self.layers) + 1)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The layers, what comes before them and after them."""
        return ("input", *self.layers, "head")


def sample_layers(runner: Runner, blueprint: Blueprint) -> tuple[int, ...]:
    """First, middle, last, and the first of each kind: kinds of layer and types of weights."""
    n_layer = runner.cfg.n_layer
    chosen = {0, n_layer // 2, n_layer - 1}
    first_of_kind: dict[Any, int] = {}
    for i, found in enumerate(blueprint.located.layers):
        kind = (type(runner.weights.layers[i]), runner.cache.layers[i], _types(found))
        first_of_kind.setdefault(kind, i)
    return tuple(sorted(chosen.union(first_of_kind.values())))


def _types(found: Mapping[str, Found | None]) -> tuple[str, ...]:
    given = [tensor for tensor in found.values() if tensor is not None]
    firsts = [tensor if isinstance(tensor, Tensor) else tensor[0] for tensor in given]
    return tuple(tensor.type.name for tensor in firsts)


def compare(
    runner: Runner,
    blueprint: Blueprint,
    plan: Plan,
    progress: Callable[[Part], None] = lambda part: None,
) -> list[Row]:
    """Compare the chosen parts of a loaded model with the reference, in the order they run.

    runner      of the model whose kernels are in question; a slot must be free
    blueprint   of the same file
    progress    told the part that is to be compared next, twice for each: prompt and one token
    """
    reference = Reference(decoded_budget=DECODED_BUDGET)
    twins = match(runner.weights, take(blueprint, reference))
    steps = _steps(runner.cfg.n_vocab, plan)
    places = Places(runner.weights)
    lockstep = Lockstep(runner.ops, reference, twins, places, plan.parts, progress)
    expected = _run(runner, lockstep.as_ops(), places, steps, own_cache=True)
    held = Forced(runner.ops, places, lockstep.tape)
    held_logits = _run(runner, held.as_ops(), places, steps)
    free = Forced(runner.ops, places, lockstep.tape, holds_stream=False)
    free_logits = _run(runner, free.as_ops(), places, steps)

    is_float = all(twin.is_float for twin in twins.values())
    layer, end = (FLOAT_LAYER,) * 2 if is_float else (TWICE_ROUNDED, END_TO_END)
    rows = lockstep.rows
    rows += [Row(part, "whole layer", found, layer) for part, found in held.found.items()]
    head = FLOAT_LAYER if is_float else ROUNDED
    rows.append(Row("head", "logits of the head", _worst(expected, held_logits), head))
    rows.append(Row("head", "logits from the tokens", _worst(expected, free_logits), end))
    order = {part: i for i, part in enumerate(plan.parts)}
    return sorted(rows, key=lambda row: order[row.part])


def _steps(n_vocab: int, plan: Plan) -> list[list[int]]:
    ids = np.random.default_rng(plan.seed).integers(0, n_vocab, plan.n_tok + 1).tolist()
    return [ids[:-1], ids[-1:]]


def _run(
    runner: Runner, ops: Ops, places: Places, steps: Sequence[list[int]], *, own_cache: bool = False
) -> list[F32]:
    """Logits of each step of one sequence; with `own_cache` keys and values are float32."""
    cache = runner.cache
    if own_cache:
        n_ctx = sum(map(len, steps))
        cache = runner.architecture.make_cache(runner.cfg, 1, n_ctx)
    onlooking = Runner(runner.architecture, runner.cfg, places.weights, ops, cache)
    slot = cache.open()
    try:
        return [onlooking.step([(slot, ids)], all_logits=True) for ids in steps]
    finally:
        cache.close(slot)


def _worst(expected: Sequence[F32], got: Sequence[F32]) -> Difference:
    worst = Difference()
    for a, b in zip(expected, got, strict=True):
        worst = worst.joined(difference(a, b))
    return worst
