"""Model files that exist in memory alone: names, shapes and types, and no weights.

A tensor made here fails when it is read, so a test that uses them shows that locating a model reads
no weights.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from junto.errors import ModelError
from junto.formats.gguf import GGUFFile
from junto.formats.quant_types import TYPES, U8
from junto.formats.safetensors import Checkpoint
from junto.formats.tensor import Tensor
from junto.models.loading import locate
from tests.tiny.gguf_metadata import architecture, metadata
from tests.tiny.gguf_writer import Packed
from tests.tiny.models import TINY, Draft, TinyModel

Shape = tuple[int, ...]

ONE_EACH = {
    "qwen35moe": TINY["qwen35moe_ratio1"],
    "gpt-oss": TINY["gpt_oss_window128"],
    "llama": TINY["llama_untied"],
    "qwen3": TINY["qwen3"],
    "qwen3moe": TINY["qwen3moe"],
    "qwen35": TINY["qwen35"],
    "qwen3next": TINY["qwen3next"],
    "gpt2": TINY["gpt2"],
}
"""A tiny model of each architecture, by its name in GGUF files."""


def lazy(name: str, shape: Iterable[int], type_name: str = "F32", source: str = "fake") -> Tensor:
    """A tensor that cannot be read."""

    def read() -> U8:
        raise AssertionError(f"{name} was read")

    return Tensor(name, tuple(shape), TYPES[type_name], source, read)


def renamed(tensor: Tensor, **changes: Any) -> Tensor:
    """The tensor with another name, shape or type."""
    old = {"name": tensor.name, "shape": tensor.shape, "type_name": tensor.type.name}
    return lazy(source=tensor.source, **{**old, **changes})


def gguf_file(
    arch: str, keys: Mapping[str, Any], tensors: Iterable[Tensor], name: str = "fake.gguf"
) -> GGUFFile:
    """A GGUF; `keys` stand as they are, besides `general.architecture`."""
    by_name = {tensor.name: tensor for tensor in tensors}
    return GGUFFile(Path(name), 3, {"general.architecture": arch, **keys}, by_name)


def checkpoint(config: Mapping[str, Any], tensors: Iterable[Tensor]) -> Checkpoint:
    """A checkpoint of one file, with a config.json beside it."""
    by_name = {tensor.name: tensor for tensor in tensors}
    return Checkpoint(Path("model.safetensors"), by_name, config)


def tiny_gguf(tiny: TinyModel, draft: Draft = "none", **keys: Any) -> GGUFFile:
    """The GGUF of a tiny model; `keys` (below the architecture's prefix) replace others.

    None removes a key; "__" in a name stands for a dot.
    """
    arch = architecture(tiny.config)
    values = metadata(tiny.config, n_nextn=int(draft != "none"))
    changes = {f"{arch}.{key.replace('__', '.')}": value for key, value in keys.items()}
    changed = {k: v for k, v in {**values, **changes}.items() if v is not None}
    return gguf_file(arch, changed, _tiny_gguf_tensors(tiny.name, draft))


@cache
def _tiny_gguf_tensors(name: str, draft: Draft) -> tuple[Tensor, ...]:
    tensors = []
    for key, stored in TINY[name].gguf_tensors(draft=draft).items():
        if isinstance(stored, Packed):
            kind = TYPES[stored.type_name]
            n = stored.rows.shape[-1] // kind.n_bytes_per_block * kind.n_per_block
            tensors.append(lazy(key, (*stored.rows.shape[:-1], n), kind.name, "fake.gguf"))
        else:
            tensors.append(lazy(key, stored.shape, source="fake.gguf"))
    return tuple(tensors)


def tiny_checkpoint(tiny: TinyModel, config: Mapping[str, Any] | None = None) -> Checkpoint:
    """The checkpoint of a tiny model, with another config.json if one is given."""
    tensors = _tiny_hf_tensors(tiny.name)
    return checkpoint(tiny.config if config is None else config, tensors)


@cache
def _tiny_hf_tensors(name: str) -> tuple[Tensor, ...]:
    return tuple(
        lazy(key, values.shape, "U8" if values.dtype == "uint8" else "BF16", "model.safetensors")
        for key, values in TINY[name].hf_tensors().items()
    )


def without(file: GGUFFile | Checkpoint, *names: str) -> GGUFFile | Checkpoint:
    """The file less some tensors, which it must have."""
    assert all(name in file.tensors for name in names)
    return _with_tensors(file, {n: t for n, t in file.tensors.items() if n not in names})


def plus(file: GGUFFile | Checkpoint, *tensors: Tensor) -> GGUFFile | Checkpoint:
    """The file with some tensors more, or others in the place of its own."""
    return _with_tensors(file, {**file.tensors, **{tensor.name: tensor for tensor in tensors}})


def gguf(metadata: Mapping[str, Any], like: GGUFFile) -> GGUFFile:
    """The file with other metadata."""
    return GGUFFile(like.path, like.version, metadata, like.tensors)


def _with_tensors(
    file: GGUFFile | Checkpoint, tensors: Mapping[str, Tensor]
) -> GGUFFile | Checkpoint:
    if isinstance(file, GGUFFile):
        return GGUFFile(file.path, file.version, file.metadata, tensors)
    return Checkpoint(file.path, tensors, file.config)


def refusal(file: GGUFFile | Checkpoint) -> str:
    """The message a file is refused with."""
    with pytest.raises(ModelError) as raised:
        locate(file)
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 400
    return message
