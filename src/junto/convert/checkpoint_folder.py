"""A folder of safetensors in plain floats, which transformers loads.

Written for architectures whose config says its config.json (`hf_config`) and whose table says how
every layout is undone. Tokenizer and generation settings are copied, or made from a GGUF's keys.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from junto.convert.progress import Progress, counted
from junto.convert.recoding import Recoder
from junto.convert.summary import Summary, summarise
from junto.convert.tokenizer_files import tokenizer_files
from junto.errors import DiskError, ModelError, RequestError
from junto.formats.atomic_file import new_folder
from junto.formats.gguf import GGUFFile
from junto.formats.out_tensor import OutTensor
from junto.formats.quant_types import TYPES, U8, QuantType
from junto.formats.safetensors import Checkpoint
from junto.formats.safetensors_writer import write_safetensors
from junto.formats.tensor import Tensor
from junto.models.layouts import each
from junto.models.loading import Blueprint, locate
from junto.models.storing import name_tensors
from junto.models.table import Found
from junto.quantize import quantize

DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Types that can be written, and what config.json calls them."""

COPIED = (
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "README.md",
    "LICENSE",
)
"""Files of a checkpoint that say nothing about how its weights are stored."""


def write_folder(
    file: GGUFFile | Checkpoint,
    target: Path,
    type: str | None,
    force: bool,
    progress: Progress | None,
) -> Summary:
    """Write a model as safetensors in one type (BF16 if none is given) into a new folder.

    RequestError for another type; ModelError where the architecture cannot be written so; DiskError
    if the folder holds something.
    """
    name = type or "BF16"
    if name not in DTYPES:
        raise RequestError(
            f"type {name!r} cannot be written to safetensors, expected {', '.join(DTYPES)}; name "
            "the target *.gguf for quantised types"
        )
    if force and target.exists() and any(target.iterdir()):
        raise DiskError(f"{target}: exists already; folders are not replaced, remove it first")
    blueprint = locate(file)
    tensors = _tensors(blueprint, TYPES[name])
    texts = _texts(blueprint, DTYPES[name])
    with new_folder(target) as folder:
        for text_name, text in texts.items():
            (folder / text_name).write_text(text, "utf-8")
        _copy(file, folder)
        files = write_safetensors(
            folder, tensors, {"format": "pt"}, advance=counted(tensors, progress)
        )
    return summarise([target / f.name for f in files], tensors, blueprint.notes)


def _tensors(blueprint: Blueprint, kind: QuantType) -> list[OutTensor]:
    recoder, table = Recoder.make(), blueprint.architecture.TENSORS
    named = name_tensors(
        table, blueprint.cfg, blueprint.located, None, "hf", lambda found: _as_type(found, kind)
    )
    try:
        return [recoder.out(one, kind) for one in named]
    except ModelError as error:
        raise ModelError(f"{blueprint.file.path.name}: {error}") from None


def _as_type(found: Found, kind: QuantType) -> Found:
    """Its values in another type, made when they are read: those of one expert at a time."""
    if isinstance(found, Tensor) and (found.type == kind or len(found.shape) < 3):
        return _plain(found, kind)
    return each(found, lambda tensor: _plain(tensor, kind))


def _plain(tensor: Tensor, kind: QuantType) -> Tensor:
    if tensor.type == kind:
        return tensor

    def read() -> U8:
        values = tensor.float32()
        if kind.name == "F32":
            return values.view("u1")
        return quantize(kind, values, name=f"tensor {tensor.name!r}")

    return replace(tensor, type=kind, read=read)


def _texts(blueprint: Blueprint, dtype: str) -> dict[str, str]:
    """config.json, and for a GGUF what stands beside it."""
    file = blueprint.file
    config = _config(blueprint)
    texts = {"config.json": _json({**config, "dtype": dtype})}
    return texts if isinstance(file, Checkpoint) else {**texts, **tokenizer_files(file)}


def _config(blueprint: Blueprint) -> dict[str, Any]:
    file, cfg = blueprint.file, blueprint.cfg
    if isinstance(file, Checkpoint):
        skipped = ("quantization_config", "torch_dtype", "dtype")
        return {key: value for key, value in file.config.items() if key not in skipped}
    if not hasattr(cfg, "hf_config"):
        name = file.metadata.get("general.architecture")
        raise ModelError(f"{file.path.name}: {name!r} is not written as safetensors by this build")
    written: dict[str, Any] = cfg.hf_config()
    return written


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _copy(file: GGUFFile | Checkpoint, folder: Path) -> None:
    if not isinstance(file, Checkpoint):
        return
    source = file.path if file.path.is_dir() else file.path.parent
    for name in COPIED:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
