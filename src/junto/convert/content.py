"""What a GGUF is to hold: metadata, and tensors by GGUF name, from a GGUF or from safetensors.

From a GGUF everything is taken over as it stands, understood or not. From a checkpoint the table of
its architecture gives names and layouts, its config the keys, its folder the tokenizer. Types are
not chosen here.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from junto.convert.general_keys import QUANTIZATION_VERSION, general_keys
from junto.convert.tokenizer_keys import tokenizer_keys
from junto.convert.types import RECIPES, Recipe
from junto.formats.gguf import GGUFFile
from junto.formats.gguf_encoding import OutValue
from junto.formats.gguf_split import PREFIX as SPLIT_PREFIX
from junto.formats.safetensors import Checkpoint
from junto.models.loading import Blueprint, locate
from junto.models.storing import Named, name_tensors
from junto.models.table import Found

Draft = Literal["keep", "drop"]
"""What becomes of the layer that drafts tokens (multi-token prediction)."""


@dataclass(frozen=True, slots=True)
class Content:
    """The parts of a GGUF to be.

    n_layer   layers, drafting ones not counted
    floats    whether vectors are to become float32
    """

    metadata: dict[str, OutValue]
    tensors: list[Named]
    n_layer: int
    floats: bool
    notes: tuple[str, ...]

    @property
    def is_tied(self) -> bool:
        """Whether the embedding is the output matrix too."""
        return all(named.name != "output.weight" for named in self.tensors)


def from_gguf(file: GGUFFile, draft: Draft, recipe: Recipe | None) -> Content:
    """Take over a GGUF, of any architecture; its parts become one."""
    metadata: dict[str, OutValue] = {
        key: value for key, value in file.stored.items() if not key.startswith(SPLIT_PREFIX)
    }
    if recipe is not None:
        metadata["general.file_type"] = recipe.file_type
        metadata["general.quantization_version"] = QUANTIZATION_VERSION
    prefix = f"{file.metadata.get('general.architecture')}."
    n_block = _whole(file.metadata.get(f"{prefix}block_count"))
    n_draft = min(_whole(file.metadata.get(f"{prefix}nextn_predict_layers")), n_block)
    tensors = [Named(name, tensor) for name, tensor in file.tensors.items()]
    if draft == "keep" or not n_draft:
        return Content(metadata, tensors, n_block - n_draft, False, ())
    blocks = tuple(f"blk.{i}." for i in range(n_block - n_draft, n_block))
    kept = [named for named in tensors if not named.name.startswith(blocks)]
    note = f"the draft layer is left out: {len(tensors) - len(kept)} tensors"
    for key, value in file.metadata.items():
        if key.startswith(prefix) and isinstance(value, np.ndarray) and len(value) == n_block:
            metadata[key] = value[: n_block - n_draft].copy()
    metadata[f"{prefix}block_count"] = n_block - n_draft
    del metadata[f"{prefix}nextn_predict_layers"]
    return Content(metadata, kept, n_block - n_draft, False, (note,))


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def from_checkpoint(file: Checkpoint, draft: Draft, recipe: Recipe | None) -> Content:
    """Name and lay out the tensors of a checkpoint as a GGUF has them, and write its keys.

    ModelError where the checkpoint is none of a model this build reads, or one that a GGUF cannot
    describe; TextError where its tokenizer is.
    """
    blueprint = locate(file)
    drafting = _draft(blueprint, draft)
    cfg = _counting_draft(blueprint.cfg, int(drafting is not None))
    table, architecture = blueprint.architecture.TENSORS, blueprint.architecture.ARCHITECTURES
    tensors = list(name_tensors(table, cfg, blueprint.located, drafting, "gguf"))
    folder = file.path if file.path.is_dir() else file.path.parent
    text = tokenizer_keys(folder, cfg.n_vocab)
    name = architecture.gguf[0]
    metadata: dict[str, OutValue] = {
        **general_keys(name, folder, recipe.file_type if recipe else _file_type(tensors)),
        **{f"{name}.{key}": value for key, value in cfg.gguf_keys().items()},
        **(text or {"tokenizer.ggml.model": "none", f"{name}.vocab_size": cfg.n_vocab}),
    }
    missing = () if text else (f"{folder}: no tokenizer.json, so the file takes token ids only",)
    return Content(metadata, tensors, cfg.n_layer, True, (*_notes(blueprint, drafting), *missing))


def _draft(blueprint: Blueprint, draft: Draft) -> Mapping[str, Found | None] | None:
    if draft == "drop":
        return None
    file = blueprint.file
    table, source = blueprint.architecture.TENSORS, file.path.name
    return table.find_draft(blueprint.cfg, file.tensors, "hf", source)


def _counting_draft(cfg: Any, n_nextn: int) -> Any:
    """The config with as many draft layers as are written; config.json need not tell of any."""
    return dataclasses.replace(cfg, n_nextn=n_nextn) if hasattr(cfg, "n_nextn") else cfg


def _notes(blueprint: Blueprint, drafting: object) -> tuple[str, ...]:
    """What is left out; not the draft where it is kept."""
    return tuple(n for n in blueprint.notes if drafting is None or "draft" not in n)


def _file_type(tensors: list[Named]) -> int:
    """What the file is called when no type is asked for: after the type of most values."""
    n_values: dict[str, int] = {}
    for named in tensors:
        kind = named.parts[0].type.name
        n_values[kind] = n_values.get(kind, 0) + int(np.prod(named.shape))
    most = max(n_values, key=lambda kind: n_values[kind])
    return RECIPES[most].file_type if most in RECIPES else RECIPES["F32"].file_type
