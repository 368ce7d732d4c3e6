"""How large a located model is, in parameters and bytes: all of it, and what one token touches.

Works from shapes and types; no weight is read. Of a stack of experts a token touches those that the
router chooses; of embeddings one row, unless one is the output matrix too.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from junto.formats.tensor import Tensor
from junto.models.loading import Blueprint, looked_up
from junto.models.table import Found


@dataclass(frozen=True, slots=True)
class WeightSizes:
    """Parameters, and bytes as stored.

    n_widest   the most rows of a matrix: experts of a token together, the vocabulary not counted
    """

    n_parameter: int
    n_parameter_active: int
    n_bytes: int
    n_bytes_active: int
    n_widest: int


@dataclass(frozen=True, slots=True)
class _Size:
    n_value: int
    n_bytes: int
    share: float
    n_row: int


def weight_sizes(blueprint: Blueprint) -> WeightSizes:
    """Add up the tensors that the model uses."""
    sizes = list(_sizes(blueprint))
    return WeightSizes(
        sum(size.n_value for size in sizes),
        round(sum(size.share * size.n_value for size in sizes)),
        sum(size.n_bytes for size in sizes),
        round(sum(size.share * size.n_bytes for size in sizes)),
        max(size.n_row for size in sizes),
    )


def _sizes(blueprint: Blueprint) -> Iterator[_Size]:
    cfg, located = blueprint.cfg, blueprint.located
    tables = looked_up(located.whole)
    for name, found in _named(located.whole, [*located.layers, located.draft or {}]):
        shape, n_bytes = _shape_of(found), n_bytes_of(found)
        share, n_row = 1.0, shape[0] if len(shape) > 1 else 0
        if len(shape) > 2:
            share, n_row = cfg.n_expert_used / shape[0], cfg.n_expert_used * shape[1]
        if shape[0] == cfg.n_vocab:
            n_row = 0
        if name in tables:
            share, n_row = 1 / shape[0], 0
        yield _Size(math.prod(shape), n_bytes, share, n_row)


def _named(
    whole: Mapping[str, Found | None], layers: list[dict[str, Found | None]]
) -> Iterator[tuple[str, Found]]:
    for fields in (whole, *layers):
        yield from ((name, found) for name, found in fields.items() if found is not None)


def _shape_of(found: Found) -> tuple[int, ...]:
    return found.shape if isinstance(found, Tensor) else (len(found), *found[0].shape)


def n_bytes_of(found: Found) -> int:
    """Bytes as stored; experts are alike."""
    return found.n_bytes if isinstance(found, Tensor) else len(found) * found[0].n_bytes
