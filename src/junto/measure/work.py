"""How much a step reads and multiplies, counted while it runs.

Bytes: each packed matrix that is used once a step, of the experts those that the router chose; keys
and values that are seen; DeltaNet states. Operations: multiplications and additions of products
with weights, attention's not among them. Vectors and activations do not count.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from junto.measure.onlooker import Onlooker
from junto.ops.contract import Ops, Routing, Weight
from junto.ops.cpu.weights import packed, rows_of
from junto.ops.views import CHUNK, F32, AgedKV, DeltaView, KVView, Span

FLOAT_TYPES = frozenset(["F64", "F32", "F16", "BF16"])
"""Types whose products take float activations."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one or more steps take.

    n_bytes    read from memory
    n_int8     multiplications and additions of products with quantised weights
    n_float    the same with float weights
    """

    n_bytes: int = 0
    n_int8: int = 0
    n_float: int = 0

    @property
    def n_operation(self) -> int:
        """Multiplications and additions of all products with weights."""
        return self.n_int8 + self.n_float

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.n_bytes + other.n_bytes,
            self.n_int8 + other.n_int8,
            self.n_float + other.n_float,
        )

    @staticmethod
    def of_product(weight: Weight, n_bytes: int, n_row: int) -> "Work":
        """`n_row` rows of activations times a matrix, or one of a stack."""
        n_operation = 2 * n_row * math.prod(weight.shape[-2:])
        if packed(weight).type in FLOAT_TYPES:
            return Work(n_bytes, n_float=n_operation)
        return Work(n_bytes, n_int8=n_operation)


class Counting(Onlooker):
    """The cpu backend; `work` adds up what its ops take."""

    def __init__(self, ops: Ops) -> None:
        super().__init__(ops)
        self.work = Work()

    def compute(self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Count an op, then run it."""
        if op in COUNTED:
            self.work += COUNTED[op](*args, **kwargs)
        return super().compute(op, args, kwargs)


def _linear(x: F32, weight: Weight, bias: F32 | None = None) -> Work:
    return Work.of_product(weight, packed(weight).matrix.n_bytes, len(x))


def _experts(
    x: F32, routing: Routing, gate: Weight, up: Weight, down: Weight, *others: Any, **named: Any
) -> Work:
    n_used = len(np.unique(routing.expert_ids))
    total = Work()
    for w in (gate, up, down):
        n_bytes = packed(w).matrix.n_bytes * n_used // w.shape[0]
        total += Work.of_product(w, n_bytes, routing.expert_ids.size)
    return total


def _embed(table: Weight, token_ids: Any) -> Work:
    tensor = rows_of(table)
    return Work(len(token_ids) * tensor.n_bytes // len(tensor))


def _attention(
    q: F32, k: F32, v: F32, view: KVView, *, window: int | None = None, **named: Any
) -> Work:
    """Keys and values that the queries of each span see, in the form that its last one sees."""
    block = _n_bytes_each(view.k) + _n_bytes_each(view.v)
    n_bytes = 0
    for span in view.spans:
        n_aged = len(view.aged.held_as_codes((span.end - 1) // CHUNK)) if view.aged else 0
        n_bytes += (_n_seen(span, window) - n_aged * CHUNK) * block // CHUNK
        n_bytes += n_aged * _n_bytes_aged(view.aged)
    return Work(n_bytes)


def _n_bytes_aged(aged: AgedKV | None) -> int:
    """Bytes of the codes and scales of a block."""
    parts = (aged.k, aged.v) if aged else ()
    return sum(_n_bytes_each(part.codes) + _n_bytes_each(part.scales) for part in parts)


def _n_seen(span: Span, window: int | None) -> int:
    return span.end - (0 if window is None else max(0, span.pos - window + 1))


def _delta_rule(q: F32, k: F32, v: F32, decay: F32, beta: F32, view: DeltaView) -> Work:
    """State and list, once for each chunk that a span touches."""
    n_bytes = 0
    lists = _n_bytes_each(view.k) + _n_bytes_each(view.u) + _n_bytes_each(view.decay)
    for span, anchor in zip(view.spans, view.anchors, strict=True):
        n_chunk = max(1, -(-(span.end - anchor) // CHUNK))
        held = min(span.end - anchor, CHUNK)
        n_bytes += n_chunk * (_n_bytes_each(view.state) + lists * held // CHUNK)
    return Work(n_bytes)


def _n_bytes_each(array: Any) -> int:
    """Bytes of one entry along the first axis."""
    n: int = math.prod(array.shape[1:])
    return n * int(array.itemsize)


COUNTED: dict[str, Callable[..., Work]] = {
    "linear": _linear,
    "experts": _experts,
    "embed": _embed,
    "attention": _attention,
    "gated_delta_rule": _delta_rule,
}
