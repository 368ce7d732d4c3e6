"""Text that remembers which of its characters a template wrote itself.

A mask of the same length goes with the text. A character is its own (the template's) or foreign;
what is not tracked here loses its mask and is foreign, so a forgotten operation can only lose a
control token, never forge one. Own characters that stood on the two sides of something foreign do
not adjoin, even where that was an empty text: a border between them is kept in the mask.

Tracked: output, concatenation, joining, slices, stripping, replacing. Knows neither Jinja2 nor
tokens.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

FOREIGN, OWN = ".", "o"
_BORDER_BEFORE = {OWN: "b", "e": "x"}
_BORDER_AFTER = {OWN: "e", "b": "x"}
_RUN = re.compile("x|[bo]o*e?|e")
_MAX_REPLACED = 100_000


class Traced(str):
    """A text and its mask; foreign unless a mask is given. Immutable."""

    __slots__ = ("_mask",)
    _mask: str

    def __new__(cls, value: str = "", mask: str | None = None) -> "Traced":
        """Take a text and a mask of the same length."""
        text = super().__new__(cls, value)
        text._mask = FOREIGN * len(value) if mask is None else mask
        return text

    def __str__(self) -> "Traced":
        return self

    def __add__(self, other: str) -> "Traced":
        return concatenated([self, other])

    def __radd__(self, other: str) -> "Traced":
        return concatenated([other, self])

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        part = super().__getitem__(key)
        if not isinstance(key, slice):
            return part
        return Traced(part, self._mask[key]) if key.step in (None, 1) else part

    def strip(self, chars: str | None = None, /) -> "Traced":
        """As of any text; what is left keeps its mask."""
        return self.lstrip(chars).rstrip(chars)

    def lstrip(self, chars: str | None = None, /) -> "Traced":
        """As of any text; what is left keeps its mask."""
        rest = super().lstrip(chars)
        return Traced(rest, self._mask[len(self) - len(rest) :])

    def rstrip(self, chars: str | None = None, /) -> "Traced":
        """As of any text; what is left keeps its mask."""
        rest = super().rstrip(chars)
        return Traced(rest, self._mask[: len(rest)])

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        """As of any text; what is new is own only where all it stands for was own."""
        n_left = self.count(old) if int(count) < 0 else int(count)
        if not old or n_left > _MAX_REPLACED:
            return super().replace(old, new, count)
        parts: list[str] = []
        pos = 0
        while n_left and (found := self.find(old, pos)) >= 0:
            is_own = FOREIGN not in self._mask[found : found + len(old)]
            parts += [self[pos:found], new if is_own else Traced("".join(new))]
            pos, n_left = found + len(old), n_left - 1
        return concatenated([*parts, self[pos:]])


def own(value: str) -> Traced:
    """The text as the template's own."""
    return Traced(value, OWN * len(value))


def shown(value: Any) -> Traced:
    """Any value as text; foreign unless it is a text that knows better."""
    return value if isinstance(value, Traced) else Traced(str(value))


def concatenated(parts: Iterable[str]) -> Traced:
    """The parts in one text; an empty one leaves a border between what stands around it."""
    texts: list[str] = []
    masks: list[str] = []
    is_border = False
    for part in parts:
        if not part:
            is_border = True
            continue
        mask = part._mask if isinstance(part, Traced) else FOREIGN * len(part)
        if is_border:
            mask = _BORDER_BEFORE.get(mask[0], mask[0]) + mask[1:]
        texts.append(part)
        masks.append(mask)
        is_border = False
    mask = "".join(masks)
    if is_border and mask:
        mask = mask[:-1] + _BORDER_AFTER.get(mask[-1], mask[-1])
    return Traced("".join(texts), mask)


def own_runs(text: Traced) -> Iterator[tuple[int, int]]:
    """Where own characters adjoin: (start, end) of each run, from left to right."""
    return (found.span() for found in _RUN.finditer(text._mask))
