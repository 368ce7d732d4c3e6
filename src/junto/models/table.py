"""The table of an architecture's tensors: one line a tensor, in the dataclass that holds it.

A field declared with `stored` says what the tensor is called in a GGUF and in safetensors, its
shape in terms of the config, and how a layout that differs becomes ours. `Table.find` maps the
tensors of a file to the fields, checks every shape, and leaves nothing over and nothing out. It
reads no weights.
"""

import dataclasses
import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from junto.errors import ModelError
from junto.formats.mapped_file import quoted
from junto.formats.tensor import F32, Tensor

Dialect = Literal["gguf", "hf"]
Found = Tensor | Sequence[Tensor]
"""One tensor, or one matrix an expert."""

HF_DRAFT = "mtp.layers.0."
"""What safetensors put before the names of the draft layer."""

DRAFT_LEFT = "the draft head (speculative decoding is not built yet)"
DRAFT_LACKS = "its metadata promises a draft head that the file does not hold; running without"
DRAFTS_BEYOND = "draft layers after the first"


@dataclass(frozen=True, slots=True)
class Source:
    """One way a file may hold a tensor.

    names    after the prefix; several are handed to `convert` together; {e} runs over the experts
    shapes   as stored, one a name, in config terms; empty: as the field says
    convert  (config, *tensors) -> ours; a name with {e} gives a tuple of tensors
    join     for writers, the way back: (config, *ours) -> as stored, given all fields that share
             the name, in their order; a source that converts and has no `join` is not written
    """

    names: tuple[str, ...]
    shapes: tuple[str, ...] = ()
    convert: Callable[..., Found] | None = None
    join: Callable[..., Found] | None = None


def one(
    name: str,
    shape: str = "",
    convert: Callable[..., Found] | None = None,
    join: Callable[..., Found] | None = None,
) -> Source:
    """A source of a single name."""
    return Source((name,), (shape,) if shape else (), convert, join)


@dataclass(frozen=True, slots=True)
class Stored:
    """What `stored` leaves in a field's metadata."""

    shape: str
    gguf: tuple[Source, ...]
    hf: tuple[Source, ...]
    may_lack: Callable[[Any], bool]
    made: Callable[[Any], F32 | None]

    def sources(self, field_name: str, dialect: Dialect) -> tuple[Source, ...]:
        """Where to look in files of a dialect, in this order."""
        if dialect == "hf":
            return self.hf
        return self.gguf or (one(f"{field_name}.weight"),)


def stored(
    shape: str,
    *,
    hf: str | Source | tuple[Source, ...],
    gguf: str | Source | tuple[Source, ...] = "",
    may_lack: Callable[[Any], bool] = lambda cfg: False,
    made: Callable[[Any], F32 | None] = lambda cfg: None,
) -> Any:
    """Declare a field that a file stores.

    shape      comma-separated sizes, each a product of config attributes and numbers
    hf, gguf   where to look, in this order; GGUF's default is the field's name + ".weight"
    may_lack   whether the file may do without it (the field is then None)
    made       what a GGUF says in this tensor and config.json in numbers, worked out for writers
    """
    return field(metadata={"stored": Stored(shape, _sources(gguf), _sources(hf), may_lack, made)})


def _sources(given: str | Source | tuple[Source, ...]) -> tuple[Source, ...]:
    if isinstance(given, tuple):
        return given
    if isinstance(given, str):
        return (one(given),) if given else ()
    return (given,)


def sizes(shape: str, cfg: Any) -> tuple[int, ...]:
    """Work out "2*n_ff_exp, n_embd" -> (1024, 2048)."""
    return tuple(math.prod(_factor(f.strip(), cfg) for f in a.split("*")) for a in shape.split(","))


def _factor(term: str, cfg: Any) -> int:
    return int(term) if term.isdigit() else int(getattr(cfg, term))


@dataclass(frozen=True, slots=True)
class Ignored:
    """Tensors that are left alone on purpose.

    pattern  of their names, as in a shell
    what     they are, for the note that says so
    if_none  the note when there are none; empty: no note
    """

    pattern: str
    what: str
    if_none: str = ""


@dataclass(frozen=True, slots=True)
class Located:
    """The tensors of a file, field by field, not read yet.

    whole    field -> tensor, of the model's own fields
    layers   the same for each layer
    notes    one line for each kind of tensor that is ignored on purpose
    draft    the same for the layer that drafts, where it is wanted and there
    """

    whole: dict[str, Found | None]
    layers: list[dict[str, Found | None]]
    notes: tuple[str, ...]
    draft: dict[str, Found | None] | None = None


@dataclass(frozen=True)
class Table:
    """All tensors of an architecture.

    whole        dataclass of the tensors outside the layers
    layer        (config, layer index) -> dataclass of that layer's tensors
    hf_prefixes  what safetensors may put before "embed_tokens" and "layers.N."; the first that is
                 there counts
    ignored      (config, dialect) -> tensors left alone on purpose
    hf_layers    what safetensors call "layers"
    draft        dataclass of the layer that drafts; the config then has `n_nextn`
    """

    whole: type
    layer: Callable[[Any, int], type]
    hf_prefixes: tuple[str, ...]
    ignored: Callable[[Any, Dialect], tuple[Ignored, ...]]
    hf_layers: str = "layers"
    draft: type | None = None

    def find(
        self,
        cfg: Any,
        tensors: Mapping[str, Tensor],
        dialect: Dialect,
        source: str,
        *,
        draft: bool = False,
    ) -> Located:
        """Map every tensor of a file, or raise ModelError naming what is wrong.

        draft   whether the layer that drafts is wanted too; a file need not have it
        """
        search = _Search(cfg, tensors, dialect, source)
        drafting = self._draft(search) if draft else None
        unused = self._ignored_drafts(cfg, dialect, drafting is not None)
        notes = search.ignore((*self.ignored(cfg, dialect), *unused))
        prefix = self._hf_prefix(tensors) if dialect == "hf" else ""
        layer_prefix = f"{prefix}{self.hf_layers}." if dialect == "hf" else "blk."
        whole = search.fields(self.whole, prefix)
        layers = [
            search.fields(self.layer(cfg, i), f"{layer_prefix}{i}.") for i in range(cfg.n_layer)
        ]
        search.refuse_leftovers()
        return Located(whole, layers, notes, drafting)

    def find_draft(
        self, cfg: Any, tensors: Mapping[str, Tensor], dialect: Dialect, source: str
    ) -> dict[str, Found | None] | None:
        """Find the tensors of the draft layer as `find` does; None if there is none."""
        return self._draft(_Search(cfg, tensors, dialect, source))

    def _draft(self, search: "_Search") -> dict[str, Found | None] | None:
        """The draft layer's fields; a file that lacks what joins it to the model has none."""
        prefix = HF_DRAFT if search.dialect == "hf" else f"blk.{search.cfg.n_layer}."
        joint = "mtp.fc.weight" if search.dialect == "hf" else f"{prefix}nextn.eh_proj.weight"
        if self.draft is None or joint not in search.tensors:
            return None
        return search.fields(self.draft, prefix)

    def _ignored_drafts(self, cfg: Any, dialect: Dialect, is_taken: bool) -> tuple[Ignored, ...]:
        """Draft layers that are not taken."""
        if self.draft is None:
            return ()
        blocks = [f"blk.{i}.*" for i in range(cfg.n_layer + is_taken, cfg.n_layer + cfg.n_nextn)]
        if is_taken:
            patterns = ["mtp.layers.*"] if dialect == "hf" else blocks
            return tuple(Ignored(pattern, DRAFTS_BEYOND) for pattern in patterns)
        if dialect == "hf":
            return (Ignored("mtp.*", DRAFT_LEFT, DRAFT_LACKS if cfg.n_nextn else ""),)
        return tuple(Ignored(pattern, DRAFT_LEFT, DRAFT_LACKS) for pattern in blocks)

    def _hf_prefix(self, tensors: Mapping[str, Tensor]) -> str:
        for prefix in self.hf_prefixes:
            if any(name.startswith(f"{prefix}{self.hf_layers}.") for name in tensors):
                return prefix
        return self.hf_prefixes[0]


class _Search:
    """One pass over the tensors of one file; remembers what is taken."""

    def __init__(
        self, cfg: Any, tensors: Mapping[str, Tensor], dialect: Dialect, source: str
    ) -> None:
        self.cfg, self.dialect, self.source = cfg, dialect, source
        self.tensors = dict(tensors)
        self.left = dict.fromkeys(tensors)

    def ignore(self, kinds: tuple[Ignored, ...]) -> tuple[str, ...]:
        """Put tensors that none has taken out of sight, so that no field takes them later."""
        notes = []
        for kind in kinds:
            names = fnmatch.filter(self.left, kind.pattern)
            for name in names:
                del self.left[name], self.tensors[name]
            if names:
                count = "1 tensor" if len(names) == 1 else f"{len(names)} tensors"
                notes.append(f"{self.source}: {count} not used: {kind.what}")
            elif kind.if_none:
                notes.append(f"{self.source}: {kind.if_none}")
        return tuple(notes)

    def fields(self, holder: type, prefix: str) -> dict[str, Found | None]:
        found = {}
        for f in dataclasses.fields(holder):
            spec: Stored = f.metadata["stored"]
            found[f.name] = self._field(spec, spec.sources(f.name, self.dialect), prefix)
        return found

    def _field(self, spec: Stored, sources: tuple[Source, ...], prefix: str) -> Found | None:
        for source in sources:
            if self._is_there(source, prefix):
                return self._take(spec, source, prefix)
        if spec.may_lack(self.cfg):
            return None
        wanted = " or ".join(
            " with ".join(repr(full_name(name, prefix)) for name in source.names)
            for source in sources
        )
        raise ModelError(f"{self.source}: tensor {wanted} is missing")

    def _is_there(self, source: Source, prefix: str) -> bool:
        return any(
            full_name(name, prefix).replace("{e}", "0") in self.tensors for name in source.names
        )

    def _take(self, spec: Stored, source: Source, prefix: str) -> Found:
        shapes = source.shapes or (spec.shape,) * len(source.names)
        parts = [
            self._part(full_name(name, prefix), shape)
            for name, shape in zip(source.names, shapes, strict=True)
        ]
        ours = source.convert(self.cfg, *parts) if source.convert else parts[0]
        shape = ours.shape if isinstance(ours, Tensor) else (len(ours), *ours[0].shape)
        expected = sizes(spec.shape, self.cfg)
        if shape != expected:
            raise ModelError(
                f"{self.source}: tensor {full_name(source.names[0], prefix)!r} gives shape "
                f"{shape}, expected {expected} = ({spec.shape})"
            )
        return ours

    def _part(self, name: str, shape: str) -> Found:
        if "{e}" not in name:
            return self._tensor(name, shape)
        count = range(self.cfg.n_expert)
        return tuple(self._tensor(name.replace("{e}", str(e)), shape) for e in count)

    def _tensor(self, name: str, shape: str) -> Tensor:
        tensor = self.tensors.get(name)
        if tensor is None:
            raise ModelError(f"{self.source}: tensor {name!r} is missing")
        expected = sizes(shape, self.cfg)
        if tensor.shape != expected:
            raise ModelError(
                f"{tensor.source}: tensor {name!r} has shape {tensor.shape}, expected {expected} "
                f"= ({shape})"
            )
        self.left.pop(name, None)
        return tensor

    def refuse_leftovers(self) -> None:
        if self.left:
            names = sorted(self.left)
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise ModelError(
                f"{self.source}: tensors this architecture does not know: "
                f"{', '.join(map(quoted, names[:3]))}{more}"
            )


def full_name(name: str, prefix: str) -> str:
    """A leading "/" marks a name that takes no prefix (lm_head)."""
    return name[1:] if name.startswith("/") else prefix + name
