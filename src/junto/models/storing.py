"""From the fields of a located model back to the names and layouts of a file.

The table of an architecture says both ways; here it is read backwards. Nothing is read from the
weights, and nothing written: a writer takes what is given here.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from junto.errors import ModelError
from junto.formats.tensor import Tensor
from junto.models.table import Dialect, Found, Located, Source, Stored, Table, full_name

Prepare = Callable[[Found], Found]


def _as_it_is(found: Found) -> Found:
    return found


@dataclass(frozen=True, slots=True)
class Named:
    """A tensor as a file is to hold it: one, or the matrices of all experts in their order."""

    name: str
    found: Found

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, experts first."""
        if isinstance(self.found, Tensor):
            return self.found.shape
        return (len(self.found), *self.found[0].shape)

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Its tensors, made when they are iterated over."""
        return (self.found,) if isinstance(self.found, Tensor) else tuple(self.found)


def name_tensors(
    table: Table,
    cfg: Any,
    located: Located,
    draft: Mapping[str, Found | None] | None,
    dialect: Dialect,
    prepare: Prepare = _as_it_is,
) -> Iterator[Named]:
    """Give every tensor of a model as files of a dialect name and lay it out.

    prepare   is given what is about to change its layout, which some types do not allow

    ModelError where the table does not say how a layout is undone.
    """
    prefix = table.hf_prefixes[-1] if dialect == "hf" else ""
    layers = f"{prefix}{table.hf_layers}." if dialect == "hf" else "blk."
    way = _Way(cfg, dialect, prepare)
    yield from _named(table.whole, located.whole, way, prefix)
    for i, found in enumerate(located.layers):
        yield from _named(table.layer(cfg, i), found, way, f"{layers}{i}.")
    if draft is not None and table.draft is not None:
        yield from _named(table.draft, draft, way, f"{layers}{cfg.n_layer}.")


@dataclass(frozen=True, slots=True)
class _Way:
    """What is the same for all tensors of a file."""

    cfg: Any
    dialect: Dialect
    prepare: Prepare


def _named(
    holder: type, found: Mapping[str, Found | None], way: _Way, prefix: str
) -> Iterator[Named]:
    """The tensors of one dataclass; fields that share a stored name make one tensor."""
    sharing: dict[str, tuple[Source, list[Found]]] = {}
    for field in dataclasses.fields(holder):
        spec: Stored = field.metadata["stored"]
        ours = _ours(field.name, spec, way.cfg, found)
        if ours is not None:
            source = _written(field.name, spec, way.dialect)
            sharing.setdefault(source.names[0], (source, []))[1].append(ours)
    for name, (source, parts) in sharing.items():
        stored = source.join(way.cfg, *map(way.prepare, parts)) if source.join else parts[0]
        yield Named(full_name(name, prefix), stored)


def _ours(
    field_name: str, spec: Stored, cfg: Any, found: Mapping[str, Found | None]
) -> Found | None:
    ours = found[field_name]
    made = spec.made(cfg) if ours is None else None
    return ours if made is None else Tensor.from_array(field_name, made, "config.json")


def _written(field_name: str, spec: Stored, dialect: Dialect) -> Source:
    """The first source that says how its layout is written."""
    for source in spec.sources(field_name, dialect):
        plain = source.convert is None and "{e}" not in source.names[0]
        if len(source.names) == 1 and (plain or source.join is not None):
            return source
    raise ModelError(f"tensor {field_name!r}: this build cannot write its layout in {dialect}")
