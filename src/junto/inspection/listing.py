"""The tensors of a file as a list, and their shares by type."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from junto.errors import FormatError
from junto.formats.mapped_file import place_in_file
from junto.formats.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor as it is stored.

    offset   of its first byte in `source`; None where the file ends before
    """

    name: str
    shape: tuple[int, ...]
    type: str
    n_bytes: int
    offset: int | None
    source: str


@dataclass(frozen=True, slots=True)
class TypeShare:
    """All tensors of one type."""

    type: str
    n_tensor: int
    n_value: int
    n_bytes: int
    share: float


def entries(tensors: Iterable[Tensor]) -> list[Entry]:
    """Describe tensors, in their order."""
    return [_entry(tensor) for tensor in tensors]


def _entry(tensor: Tensor) -> Entry:
    try:
        offset = place_in_file(tensor.data)
    except (FormatError, ValueError):
        offset = None
    name, shape, n_bytes = tensor.name, tensor.shape, tensor.n_bytes
    return Entry(name, shape, tensor.type.name, n_bytes, offset, tensor.source)


def of_layer(tensors: Iterable[Tensor], layer: int) -> list[Tensor]:
    """The tensors of one layer, by the names of GGUF or of safetensors."""
    of_it = re.compile(rf"(?:^blk|(?:^|\.)layers|(?:^|\.)h)\.{layer}\.")
    return [tensor for tensor in tensors if of_it.search(tensor.name)]


def mix(tensors: Iterable[Tensor]) -> list[TypeShare]:
    """Add up tensors by type, the most bytes first."""
    members: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        members.setdefault(tensor.type.name, []).append(tensor)
    total = sum(tensor.n_bytes for ones in members.values() for tensor in ones)
    shares = [_share(name, ones, total) for name, ones in members.items()]
    return sorted(shares, key=lambda share: -share.n_bytes)


def _share(name: str, ones: list[Tensor], total: int) -> TypeShare:
    n_bytes = sum(tensor.n_bytes for tensor in ones)
    n_value = sum(math.prod(tensor.shape) for tensor in ones)
    return TypeShare(name, len(ones), n_value, n_bytes, n_bytes / max(1, total))
