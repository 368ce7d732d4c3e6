"""Files that this machine already has: packed weights of junto, and models of any program."""

import shutil
from collections.abc import Iterator, Sequence
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


def of_models(models: Sequence[tuple[str, int]]) -> Iterator[Finding]:
    """Models by name or path, with their bytes; only so many that the rest is still seen."""
    for name, n_bytes in models[:N_SHOWN]:
        yield Finding("models", name, f"{n_bytes / 1e9:.2f} GB")
    if len(models) > N_SHOWN:
        yield Finding("models", "more", str(len(models) - N_SHOWN))
    if not models:
        yield Finding("models", "found", "none here, and none that junto list shows")
