"""Reads a checkpoint in safetensors: one file, or a folder or index that spreads it over shards.

Index and shards must agree in full, in both directions, so that a half-copied or mixed-up folder is
refused and never served. What the tensors and the config mean is left to the models.

    index: {"weight_map": {"tensor name": "model-00001-of-00002.safetensors", ...}}
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from junto.errors import FormatError
from junto.formats.json_file import read_json_object
from junto.formats.mapped_file import quoted
from junto.formats.safetensors_shard import read_shard
from junto.formats.tensor import Tensor

__all__ = ["Checkpoint", "read_safetensors"]

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_SHARD_NAME = re.compile(r"model(\.safetensors)?-\d{5}-of-\d{5}\.safetensors")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """An open checkpoint: tensors by name, and config.json beside them ({} if there is none).

    files   what the tensors were read from, an index included
    """

    path: Path
    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]
    files: tuple[Path, ...] = ()


def read_safetensors(path: str | Path) -> Checkpoint:
    """Map a checkpoint: a folder, a .safetensors file, or a model.safetensors.index.json.

    FormatError if a file is missing or broken, or if index and shards do not agree.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    weights = _find_weights(path) if path.is_dir() else path
    tensors = _read_indexed(weights) if weights.suffix == ".json" else read_shard(weights)
    config_path = folder / "config.json"
    config = read_json_object(config_path) if config_path.exists() else {}
    shards = {folder / tensor.source for tensor in tensors.values()}
    files = (weights, *sorted(shards - {weights}))
    return Checkpoint(path, MappingProxyType(tensors), MappingProxyType(config), files)


def _find_weights(folder: Path) -> Path:
    """Choose the index or the one file of a folder; FormatError if neither is there."""
    index, whole = folder / INDEX, folder / WHOLE
    if index.exists():
        return index
    if not whole.exists():
        found = ", ".join(sorted(p.name for p in folder.glob("*.safetensors"))[:4])
        raise FormatError(f"{folder}: holds no {WHOLE} and no {INDEX}; found: {found or 'none'}")
    _refuse_strays(folder, {WHOLE}, WHOLE)
    return whole


def _read_indexed(index: Path) -> dict[str, Tensor]:
    weight_map = _read_weight_map(index)
    shard_names = sorted(set(weight_map.values()))
    _refuse_strays(index.parent, set(shard_names), index.name)
    shards = {shard_name: _open_shard(index, shard_name) for shard_name in shard_names}
    for shard_name, tensors in shards.items():
        _refuse_unlisted(index, weight_map, shard_name, tensors)
    for name, shard_name in weight_map.items():
        if name not in shards[shard_name]:
            raise FormatError(
                f"{shard_name}: does not hold tensor {quoted(name)}, as {index.name} says"
            )
    return {name: shards[shard_name][name] for name, shard_name in weight_map.items()}


def _read_weight_map(index: Path) -> dict[str, str]:
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise FormatError(f"{index.name}: no 'weight_map' of tensor names to file names")
    for name, shard_name in weight_map.items():
        if not isinstance(shard_name, str) or not _is_plain_name(shard_name):
            raise FormatError(
                f"{index.name}: tensor {quoted(name)} is said to be in {quoted(shard_name)}, "
                "expected the name of a .safetensors file in the same folder"
            )
    return weight_map


def _is_plain_name(name: str) -> bool:
    """Tell whether a name out of an index can only mean a file beside it."""
    hidden_or_path = name.startswith(".") or "/" in name or "\\" in name
    return name.endswith(".safetensors") and name.isprintable() and not hidden_or_path


def _open_shard(index: Path, shard_name: str) -> dict[str, Tensor]:
    path = index.parent / shard_name
    if not path.exists():
        raise FormatError(f"{index.name}: shard {shard_name} is missing; fetch it again")
    return read_shard(path)


def _refuse_unlisted(
    index: Path, weight_map: dict[str, str], shard_name: str, tensors: dict[str, Tensor]
) -> None:
    for name in tensors:
        listed = weight_map.get(name)
        if listed is None:
            raise FormatError(f"{shard_name}: tensor {quoted(name)} is not listed in {index.name}")
        if listed != shard_name:
            raise FormatError(
                f"{shard_name}: holds tensor {quoted(name)}, which {index.name} places in {listed}"
            )


def _refuse_strays(folder: Path, known: set[str], named_by: str) -> None:
    """Refuse files that look like shards of another copy; other extra files are nobody's business.

    A whole model beside an index that does not name it is such a file too.
    """
    for path in sorted(folder.glob("model*.safetensors")):
        looks_owned = path.name == WHOLE or _SHARD_NAME.fullmatch(path.name)
        if looks_owned and path.name not in known:
            raise FormatError(
                f"{path.name}: a stray file: {named_by} does not name it; move one of them away"
            )
