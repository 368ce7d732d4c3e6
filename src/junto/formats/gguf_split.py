"""A GGUF in parts, opened as one file from any of its parts.

Parts count from 0 in their metadata and from 1 in their names. The first holds the metadata of the
model, each of the others only what tells it is a part:

    model-00002-of-00003.gguf      split.no 1, split.count 3, split.tensors.count (of all parts)

Parts that junto writes carry `split.fingerprint` too, the same in all parts of one model. Each way
that parts can be wrong has its own message: missing, renamed, not a part, of two models. How one
part is read is not known here.

Source: llama.cpp's gguf-split.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from junto.errors import FormatError
from junto.formats.gguf_file import GGUFFile
from junto.formats.mapped_file import quoted
from junto.formats.tensor import Tensor

T = TypeVar("T")

PREFIX = "split."
NO, COUNT, N_TENSOR = "split.no", "split.count", "split.tensors.count"
FINGERPRINT = "split.fingerprint"
MAX_PARTS = (1 << 16) - 1
"""The largest `split.count`, a u16."""

_NAME = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Part:
    """An open part, and which one it is by its own metadata; `index` counts from 0."""

    file: GGUFFile
    index: int
    count: int

    def __str__(self) -> str:
        return f"part {self.index + 1} of {self.count}"

    @property
    def name(self) -> str:
        return self.file.path.name


def part_name(stem: str, index: int, count: int) -> str:
    """Return the name of a part; `index` counts from 0."""
    return f"{stem}-{index + 1:05d}-of-{count:05d}.gguf"


def joined(file: GGUFFile, read_part: Callable[[Path], GGUFFile]) -> GGUFFile:
    """Return a file that is no part as it is, and else all parts as one, under the first's path.

    FormatError if a part is missing, or they are not the parts of one model.
    """
    count = file.metadata.get(COUNT, 1)
    if isinstance(count, int) and count in (0, 1):
        return file
    opened = _part(file)
    paths = _paths(opened)
    _refuse_missing(opened, paths)
    parts = [
        opened if i == opened.index else _sibling(read_part(path), i, opened.count)
        for i, path in enumerate(paths)
    ]
    first = parts[0].file
    for part in parts[1:]:
        _refuse_other_model(parts[0], part)
    tensors = _all_tensors(parts)
    metadata, stored = _without_split(first.metadata), _without_split(first.stored)
    proxy = MappingProxyType(tensors)
    return GGUFFile(first.path, first.version, metadata, proxy, stored, tuple(paths))


def _part(file: GGUFFile) -> _Part:
    """Read which part a file is; FormatError if its metadata does not tell."""
    name = file.path.name
    if COUNT not in file.metadata:
        raise FormatError(f"{name}: not a part of a split model: its metadata has no '{COUNT}'")
    count = _whole_number(file, COUNT, 2, MAX_PARTS)
    return _Part(file, _whole_number(file, NO, 0, count - 1), count)


def _whole_number(file: GGUFFile, key: str, low: int, high: int) -> int:
    value = file.metadata.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        shown = "missing" if value is None else quoted(value)
        raise FormatError(
            f"{file.path.name}: metadata '{key}' is {shown}, expected {low} to {high}"
        )
    return value


def _paths(opened: _Part) -> list[Path]:
    """Return the paths of all parts; FormatError if the opened one was renamed."""
    named = _NAME.fullmatch(opened.name)
    if named is None:
        raise FormatError(
            f"{opened.name}: is {opened} by its metadata, expected a name that ends in "
            f"'{part_name('', opened.index, opened.count)}'; give the parts their names back"
        )
    if (int(named["number"]), int(named["count"])) != (opened.index + 1, opened.count):
        raise _renamed(opened, int(named["number"]), int(named["count"]))
    folder = opened.file.path.parent
    return [folder / part_name(named["stem"], i, opened.count) for i in range(opened.count)]


def _refuse_missing(opened: _Part, paths: Sequence[Path]) -> None:
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise FormatError(
            f"{opened.name}: is {opened}; missing in its folder: {', '.join(missing[:3])}{more}; "
            "fetch them, or put the parts together"
        )


def _sibling(file: GGUFFile, index: int, count: int) -> _Part:
    part = _part(file)
    if (part.index, part.count) != (index, count):
        raise _renamed(part, index + 1, count)
    return part


def _renamed(part: _Part, number: int, count: int) -> FormatError:
    return FormatError(
        f"{part.name}: is part {number} of {count} by its name, {part} by its metadata; "
        "it was renamed, or replaced by a part of another model"
    )


def _refuse_other_model(first: _Part, part: _Part) -> None:
    """Compare what parts of one model share; what a part does not tell is not compared."""
    for key in (N_TENSOR, FINGERPRINT, "general.architecture"):
        mine, its = (p.file.metadata.get(key) for p in (first, part))
        told_by_all = key != "general.architecture"
        if (its is not None or told_by_all) and quoted(mine) != quoted(its):
            raise FormatError(
                f"{part.name}: is of another model than {first.name}: its '{key}' is "
                f"{quoted(its)}, expected {quoted(mine)}"
            )


def _all_tensors(parts: Sequence[_Part]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for part in parts:
        for name, tensor in part.file.tensors.items():
            if name in tensors:
                raise FormatError(
                    f"{part.name}: is of another model than {tensors[name].source}: both hold "
                    f"tensor {quoted(name)}"
                )
            tensors[name] = tensor
    expected = parts[0].file.metadata.get(N_TENSOR, len(tensors))
    if expected != len(tensors):
        raise FormatError(
            f"{parts[0].name}: the {len(parts)} parts hold {len(tensors)} tensors, expected "
            f"{quoted(expected)} ('{N_TENSOR}'); they are of two models, or one is incomplete"
        )
    return tensors


def _without_split(mapping: Mapping[str, T]) -> Mapping[str, T]:
    return MappingProxyType({k: v for k, v in mapping.items() if not k.startswith(PREFIX)})
