"""Models among the files of a folder: GGUF files, and safetensors with their config."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from junto.library.choice import Gguf, ggufs, safetensors

INDEX = "model.safetensors.index.json"
MAX_DEPTH = 4
"""Folders below the first; publishers' folders, and one for each type, are two."""
MAX_JSON = 64 << 20


def paths_in(folder: Path) -> list[str]:
    """Files below a folder by their paths in it, with `/`; broken links are left out."""
    found: list[str] = []
    for root, folders, names in os.walk(folder):
        inside = Path(root).relative_to(folder)
        folders[:] = sorted(folders) if len(inside.parts) < MAX_DEPTH else []
        found += [(inside / name).as_posix() for name in names if (Path(root) / name).is_file()]
    return sorted(found)


def whole_ggufs(paths: list[str]) -> Iterator[Gguf]:
    """Models in GGUF of which no part is missing."""
    return (model for model in ggufs(paths) if model.is_whole)


def whole_safetensors(folder: Path, paths: list[str]) -> list[str]:
    """The files of a model in safetensors; none where its config or a shard is missing."""
    files = safetensors(paths)
    if "config.json" not in files:
        return []
    shards = json_object(folder / INDEX).get("weight_map", {}) if INDEX in files else {}
    names = shards.values() if isinstance(shards, dict) else ()
    return files if {str(name) for name in names} <= set(files) else []


def config_type(folder: Path) -> str | None:
    """Of a model in safetensors: how it was quantised, or the type of its floats."""
    config = json_object(folder / "config.json")
    inner = config.get("text_config")
    for part in (config, inner if isinstance(inner, dict) else {}):
        quantised = part.get("quantization_config")
        method = quantised.get("quant_method") if isinstance(quantised, dict) else None
        told = method or part.get("dtype") or part.get("torch_dtype")
        if isinstance(told, str):
            return told.upper().replace("BFLOAT16", "BF16").replace("FLOAT", "F")
    return None


def json_object(path: Path) -> dict[str, Any]:
    """The object in a small JSON file; empty where there is none that can be read."""
    try:
        if path.stat().st_size > MAX_JSON:
            return {}
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
