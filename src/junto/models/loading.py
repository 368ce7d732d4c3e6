"""From a file to a model that can run: architecture, config, tensors, weights.

`locate` reads headers only; `take` hands the weights to a backend. The tokenizer is not its
business.
"""

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from junto.errors import ModelError
from junto.formats.gguf import GGUFFile, read_gguf
from junto.formats.quants import DECODERS
from junto.formats.safetensors import Checkpoint, read_safetensors
from junto.formats.tensor import Tensor
from junto.models.architecture import Architecture, by_gguf_name, by_hf_name
from junto.models.keys import Keys
from junto.models.table import DRAFT_LACKS, Found, Located
from junto.ops.contract import Ops, Weight
from junto.ops.views import F32


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A model whose every tensor is found and checked, and none read.

    file   the opened file, which keeps the mapping alive
    """

    architecture: Architecture
    cfg: Any
    located: Located
    notes: tuple[str, ...]
    file: GGUFFile | Checkpoint


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a model as its architecture declares them: `Whole`, and a `Layer` each.

    draft   of the layer that drafts, where it is loaded
    """

    whole: Any
    layers: tuple[Any, ...]
    draft: Any = None


def open_file(path: Path) -> GGUFFile | Checkpoint:
    """Open a GGUF or any part of one, a safetensors file, an index of shards, or their folder."""
    if not path.exists():
        raise ModelError(f"{path}: no such file or folder")
    if path.is_dir() or path.suffix in (".safetensors", ".json"):
        return read_safetensors(path)
    return read_gguf(path)


def locate(file: GGUFFile | Checkpoint, *, draft: bool = False) -> Blueprint:
    """Read the config and find every tensor, or raise ModelError saying what is wrong.

    draft   whether the layer that drafts is wanted too; a note says where there is none
    """
    return _locate_gguf(file, draft) if isinstance(file, GGUFFile) else _locate_hf(file, draft)


def _locate_gguf(file: GGUFFile, draft: bool) -> Blueprint:
    source = file.path.name
    architecture, name = by_gguf_name(file.metadata, source)
    keys = Keys(file.metadata, source, f"{name}.")
    cfg = architecture.Config.from_gguf(keys, _n_vocab(file, source))
    located = architecture.TENSORS.find(cfg, file.tensors, "gguf", source, draft=draft)
    notes = _notes(located, keys.unread(), source)
    return _with_draft(Blueprint(architecture, cfg, located, notes, file), draft)


def _locate_hf(file: Checkpoint, draft: bool) -> Blueprint:
    source = f"{file.path.name}/config.json" if file.path.is_dir() else "config.json"
    if not file.config:
        raise ModelError(f"{file.path}: no config.json beside the tensors; it says what they mean")
    architecture = by_hf_name(file.config, source)
    keys = Keys(file.config, source)
    cfg = architecture.Config.from_hf(keys)
    located = architecture.TENSORS.find(cfg, file.tensors, "hf", file.path.name, draft=draft)
    notes = _notes(located, keys.unread(architecture.IGNORED_KEYS), source)
    return _with_draft(Blueprint(architecture, cfg, located, notes, file), draft)


def _with_draft(blueprint: Blueprint, wanted: bool) -> Blueprint:
    """The same with a config that counts the draft layer, or a note that there is none."""
    if not wanted:
        return blueprint
    if blueprint.located.draft is not None:
        return replace(blueprint, cfg=replace(blueprint.cfg, drafts=True))
    note = f"{blueprint.file.path.name}: a draft head is wanted and not there; running without"
    is_told = any(DRAFT_LACKS in note for note in blueprint.notes)
    return blueprint if is_told else replace(blueprint, notes=(*blueprint.notes, note))


def _notes(located: Located, unread: list[str], source: str) -> tuple[str, ...]:
    if not unread:
        return located.notes
    return (*located.notes, f"{source}: keys not understood and not used: {', '.join(unread)}")


def _n_vocab(file: GGUFFile, source: str) -> int:
    """Tokens of the vocabulary, which are as many as rows of the embedding; converters pad it."""
    embedding = file.tensors.get("token_embd.weight")
    n_row = embedding.shape[0] if embedding is not None and len(embedding.shape) == 2 else None
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if tokens is None:
        if n_row is None:
            raise ModelError(f"{source}: neither a vocabulary nor a tensor 'token_embd.weight'")
        return n_row
    if not isinstance(tokens, Sequence) or isinstance(tokens, str):
        raise ModelError(f"{source}: 'tokenizer.ggml.tokens' is no list of strings")
    if n_row is not None and n_row != len(tokens):
        raise ModelError(
            f"{source}: 'tokenizer.ggml.tokens' has {len(tokens)} tokens and 'token_embd.weight' "
            f"{n_row} rows, expected as many; the file is broken, convert the model again"
        )
    return len(tokens)


_MATRIX = (Weight, Weight | None)


def take(blueprint: Blueprint, ops: Ops) -> Weights:
    """Hand matrices to the backend and read vectors as float32."""
    table, located = blueprint.architecture.TENSORS, blueprint.located
    with ops.loading():
        layers = [
            fill(table.layer(blueprint.cfg, i), found, ops)
            for i, found in enumerate(located.layers)
        ]
        whole = fill(table.whole, located.whole, ops, looked_up(located.whole))
        # The draft comes last: a packed file that was made without it serves all the others.
        draft = located.draft
        drafting = None if draft is None or table.draft is None else fill(table.draft, draft, ops)
        return Weights(whole, tuple(layers), drafting)


def looked_up(whole: Mapping[str, Found | None]) -> frozenset[str]:
    """Fields of which only rows are read: embeddings, unless one is the output matrix too."""
    tied = whole.get("output") is None
    return frozenset(["position_embd"] if tied else ["position_embd", "token_embd"])


def matrices(blueprint: Blueprint) -> Iterator[Found]:
    """What products read: every matrix, and every stack of experts."""
    table, located = blueprint.architecture.TENSORS, blueprint.located
    layers = ((table.layer(blueprint.cfg, i), found) for i, found in enumerate(located.layers))
    tables = looked_up(located.whole)
    draft = [] if located.draft is None else [(table.draft, located.draft)]
    for holder, fields in ((table.whole, located.whole), *layers, *draft):
        kinds = typing.get_type_hints(holder)
        for name, found in fields.items():
            if found is not None and kinds[name] in _MATRIX and name not in tables:
                yield found


def fill(
    holder: type,
    found: Mapping[str, Found | None],
    ops: Ops,
    tables: frozenset[str] = frozenset(),
) -> Any:
    """Build the dataclass `holder` from its located tensors; of `tables` only rows are read."""
    kinds = typing.get_type_hints(holder)
    return holder(
        **{
            name: _taken(kinds[name], tensor, ops, is_table=name in tables)
            for name, tensor in found.items()
        }
    )


def _taken(kind: Any, found: Found | None, ops: Ops, *, is_table: bool) -> Weight | F32 | None:
    if found is None:
        return None
    for tensor in (found,) if isinstance(found, Tensor) else found:
        _refuse_undecodable(tensor)
    if is_table:
        assert isinstance(found, Tensor), "an embedding is one matrix"
        return ops.table(found)
    if kind in _MATRIX:
        return ops.weight(found)
    assert isinstance(found, Tensor), "only matrices come one an expert"
    return found.float32()


def _refuse_undecodable(tensor: Tensor) -> None:
    """A matrix is decoded when it is used; a type that cannot be must not wait until then."""
    if tensor.type.name not in DECODERS:
        raise ModelError(
            f"{tensor.source}: tensor {tensor.name!r} is {tensor.type.name}; "
            f"this build decodes: {', '.join(DECODERS)}"
        )
