"""Files that this machine already has: packed weights of junto, and models of any program."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from junto.measure.diagnosis import Finding
from junto.ops.cpu.packed_cache import kept, packed_folder

N_SHOWN = 20
LITTLE_DISK = 20 << 30


def of_packed_files() -> Iterator[Finding]:
    """The folder of packed files, how full it and its disk are, and what nobody needs any more."""
    folder = packed_folder()
    files = list(kept(folder))
    size = sum(file.n_bytes for file in files)
    stale = [file for file in files if file.is_stale]
    advice = "remove those whose model is gone: junto cache clear --stale" if stale else ""
    text = f"{len(files)} files, {size / 1e9:.2f} GB, {len(stale)} of models that are gone"
    yield Finding("packed files", str(folder), text, advice)
    free = _free_disk(folder)
    if free is not None:
        advice = "packed files need room: free some" if free < LITTLE_DISK else ""
        yield Finding("packed files", "disk", f"{free / 1e9:.1f} GB free", advice)


def _free_disk(folder: Path) -> int | None:
    """Free bytes where the folder is, or would be made."""
    there = next((p for p in (folder, *folder.parents) if p.exists()), None)
    try:
        return None if there is None else shutil.disk_usage(there).free
    except OSError:
        return None


def of_models(
    here: Path, home: Path, environment: Mapping[str, str] = os.environ
) -> Iterator[Finding]:
    """GGUF files in this folder, and where other programs keep theirs."""
    hub = Path(environment.get("HF_HOME") or home / ".cache" / "huggingface") / "hub"
    places = (here, hub, home / ".cache" / "llama.cpp", home / "models")
    found = [path for place in places for path in _models_in(place)]
    for path in found[:N_SHOWN]:
        yield Finding("models", str(path), f"{_size(path) / 1e9:.2f} GB")
    if len(found) > N_SHOWN:
        yield Finding("models", "more", str(len(found) - N_SHOWN))
    if not found:
        yield Finding("models", "found", "none here, in ~/models or in known caches")


def _models_in(folder: Path) -> list[Path]:
    """GGUF files in a folder or, as the hub's cache has them, some levels below."""
    patterns = ("*.gguf", "models--*/snapshots/*/*.gguf", "models--*/snapshots/*/*/*.gguf")
    try:
        return sorted(path for pattern in patterns for path in folder.glob(pattern))
    except OSError:
        return []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
