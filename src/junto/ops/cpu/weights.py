"""Weights of the CPU backend: packed once, in the form that decode and prefill share."""

from collections.abc import Sequence
from dataclasses import dataclass

from junto._kernels import PackedMatrix, ThreadPool, packed_types
from junto.errors import ModelError
from junto.formats.tensor import Tensor
from junto.ops.contract import Weight
from junto.ops.cpu.store import Shape, Store

PACKED_TYPES = frozenset(packed_types())
"""Every type of weights that GGUF has; each is packed without loss, in 0 to 4 % more bytes."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What hides behind `Weight.handle`: the packed matrix, and the tensor it came from.

    matrix   all of it, or of all experts
    type     of the stored tensor
    tensor   for single rows (an embedding); None where experts come one by one
    """

    matrix: PackedMatrix
    type: str
    tensor: Tensor | None


def pack(tensor: Tensor | Sequence[Tensor], pool: ThreadPool, store: Store) -> Weight:
    """Pack a stored matrix, a stack [n_expert, n_out, n_in], or one matrix an expert, into a store.

    ModelError if the type has no kernel.
    """
    experts = _experts(tensor)
    first = experts[0]
    if first.type.name not in PACKED_TYPES:
        raise ModelError(
            f"{first.source}: tensor {first.name!r} is {first.type.name}, which backend 'cpu' "
            f"has no kernel for (it takes {', '.join(sorted(PACKED_TYPES))}); "
            "try backend 'reference'"
        )
    n_out, n_in = first.shape
    stored = Shape(first.name, first.type.name, len(experts), n_out, n_in)
    matrix = store.matrix(stored, experts, pool)
    single = isinstance(tensor, Tensor) and len(tensor.shape) == 2
    shape = (n_out, n_in) if single else (len(experts), n_out, n_in)
    whole = tensor if isinstance(tensor, Tensor) else None
    return Weight(first.name, shape, Packed(matrix, first.type.name, whole))


def _experts(tensor: Tensor | Sequence[Tensor]) -> list[Tensor]:
    if not isinstance(tensor, Tensor):
        return list(tensor)
    return [tensor] if len(tensor.shape) == 2 else [tensor[e] for e in range(len(tensor))]


def packed(weight: Weight) -> Packed:
    """What the CPU backend put behind a weight's handle."""
    if not isinstance(weight.handle, Packed):
        raise TypeError(f"weight {weight.name!r} was made by another backend")
    return weight.handle
