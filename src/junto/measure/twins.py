"""The weights of one file in two backends, matched one to one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from junto.formats.tensor import Tensor
from junto.measure.places import fields_of
from junto.measure.work import FLOAT_TYPES
from junto.models.loading import Weights
from junto.ops.contract import Weight
from junto.ops.reference.matrices import stored


@dataclass(frozen=True, slots=True)
class Twin:
    """What a weight of the fast backend is called, and the same weight in the reference.

    name   the field that holds it
    type   of its tensor in the file
    """

    name: str
    weight: Weight
    type: str

    @property
    def is_float(self) -> bool:
        """Whether activations stay as they are when they meet it."""
        return self.type in FLOAT_TYPES


Twins = dict[int, Twin]
"""By the `id` of the fast backend's weight."""


def match(fast: Weights, reference: Weights) -> Twins:
    """Match the weights of two backends; both hold the same model."""
    holders = [(fast.whole, reference.whole), *zip(fast.layers, reference.layers, strict=True)]
    return {id(mine): twin for a, b in holders for mine, twin in _pairs(a, b)}


def _pairs(fast: Any, reference: Any) -> Iterator[tuple[Weight, Twin]]:
    for (name, mine), (_, theirs) in zip(fields_of(fast), fields_of(reference), strict=True):
        if isinstance(mine, Weight):
            yield mine, Twin(name, theirs, type_of(theirs))


def type_of(weight: Weight) -> str:
    """The type of a weight's tensor; `weight` is the reference's."""
    tensor = stored(weight).tensor
    return (tensor if isinstance(tensor, Tensor) else tensor[0]).type.name
