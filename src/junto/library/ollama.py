"""Models in Ollama's store: a manifest names the blobs of a model, one of which is a GGUF file.

    manifests/registry.ollama.ai/library/gpt-oss/20b    JSON: config, layers of several kinds
    blobs/sha256-...                                    their bytes, named by their checksum

Nothing is ever written or removed here.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from junto.library.files import json_object, paths_in
from junto.library.found import OLLAMA, Found

REGISTRY, LIBRARY, LATEST = "registry.ollama.ai", "library", "latest"
_WEIGHTS = "application/vnd.ollama.image.model"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def models(store: Path) -> Iterator[Found]:
    """All models of a store whose weights are one GGUF file."""
    folder = store / "manifests"
    for path in paths_in(folder):
        manifest = json_object(folder / path)
        layers = manifest.get("layers")
        blobs = [_blob(store, layer) for layer in (layers if isinstance(layers, list) else ())]
        files = [blob for blob in blobs if blob is not None and blob.is_file()]
        if len(files) == 1:
            yield Found(_name(path), files[0], (files[0],), OLLAMA, _type(store, manifest))


def _name(path: str) -> str:
    """The name that Ollama shows: its own registry and library are left out."""
    *folders, model, tag = path.split("/")
    if folders[:1] == [REGISTRY]:
        folders = folders[1:]
    if folders == [LIBRARY]:
        folders = []
    return "/".join([*folders, f"{model}:{tag}"])


def _blob(store: Path, layer: Any, kind: str | None = _WEIGHTS) -> Path | None:
    if not isinstance(layer, dict) or kind not in (None, layer.get("mediaType")):
        return None
    digest = _DIGEST.fullmatch(str(layer.get("digest")))
    return store / "blobs" / f"sha256-{digest[1]}" if digest else None


def _type(store: Path, manifest: dict[str, Any]) -> str | None:
    config = _blob(store, manifest.get("config"), kind=None)
    told = json_object(config).get("file_type") if config else None
    return told if isinstance(told, str) else None
