"""Weights of the CPU backend: packed once, in the form that decode and prefill share.

Matrices are packed when they are taken, experts when a step first needs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from junto._kernels import PackedMatrix, ThreadPool, packed_types
from junto.errors import ModelError
from junto.formats.tensor import Tensor
from junto.ops.contract import Weight
from junto.ops.cpu.stack import Stack
from junto.ops.cpu.store import Shape, Store

PACKED_TYPES = frozenset(packed_types())
"""Every type of weights that GGUF has; each is packed without loss, in 0 to 4 % more bytes."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What hides behind `Weight.handle`: the packed matrix, and the tensor it came from.

    stack    of all experts, or of the only matrix
    type     of the stored tensor
    tensor   for single rows (an embedding); None where experts come one by one
    """

    stack: Stack
    type: str
    tensor: Tensor | None

    @property
    def matrix(self) -> PackedMatrix:
        """What kernels take; experts may be missing in it."""
        return self.stack.matrix


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The same for a matrix whose rows are looked up and nothing else."""

    tensor: Tensor


def pack(tensor: Tensor | Sequence[Tensor], pool: ThreadPool, store: Store) -> Weight:
    """Take a stored matrix, a stack [n_expert, n_out, n_in], or one matrix an expert, into a store.

    ModelError if the type has no kernel, or experts have several.
    """
    experts = _experts(tensor)
    first = experts[0]
    _refuse_unpackable(first)
    if not isinstance(tensor, Tensor):
        _refuse_unlike(first, tensor)
    n_out, n_in = first.shape
    stored = Shape(first.name, first.type.name, len(experts), n_out, n_in)
    stack = store.matrix(stored, experts, pool)
    single = isinstance(tensor, Tensor) and len(tensor.shape) == 2
    shape = (n_out, n_in) if single else (len(experts), n_out, n_in)
    whole = tensor if isinstance(tensor, Tensor) else None
    return Weight(first.name, shape, Packed(stack, first.type.name, whole))


def unpacked(tensor: Tensor) -> Weight:
    """Take a stored matrix [n_row, n_column] for its rows alone: no product reads it."""
    return Weight(tensor.name, tensor.shape, Unpacked(tensor))


def is_put_off(tensor: Tensor | Sequence[Tensor]) -> bool:
    """Whether a tensor is packed later than it is taken: a stack of several experts."""
    return len(_experts(tensor)) > 1


def _experts(tensor: Tensor | Sequence[Tensor]) -> Tensor | Sequence[Tensor]:
    return [tensor] if isinstance(tensor, Tensor) and len(tensor.shape) == 2 else tensor


def _refuse_unpackable(tensor: Tensor) -> None:
    if tensor.type.name not in PACKED_TYPES:
        raise ModelError(
            f"{tensor.source}: tensor {tensor.name!r} is {tensor.type.name}, which backend 'cpu' "
            f"has no kernel for (it takes {', '.join(sorted(PACKED_TYPES))}); "
            "try backend 'reference'"
        )


def _refuse_unlike(first: Tensor, experts: Sequence[Tensor]) -> None:
    """One kernel serves a stack; found out here, since most experts are read much later."""
    for expert in experts:
        if expert.type != first.type:
            raise ModelError(
                f"{expert.source}: tensor {expert.name!r} is {expert.type.name}, expected "
                f"{first.type.name} as {first.name!r} is: backend 'cpu' wants experts of one type; "
                "try backend 'reference'"
            )


def packed(weight: Weight) -> Packed:
    """What the CPU backend put behind a weight's handle."""
    if not isinstance(weight.handle, Packed):
        raise TypeError(f"weight {weight.name!r} was made by another backend")
    return weight.handle


def rows_of(weight: Weight) -> Tensor:
    """The stored tensor of a matrix, for single rows."""
    held = weight.handle if isinstance(weight.handle, Unpacked) else packed(weight)
    assert held.tensor is not None, "an embedding is one matrix"
    return held.tensor
