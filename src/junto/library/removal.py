"""Removes a model from the hub's cache or from a folder of JUNTO_MODELS, and from nowhere else.

What lies in other programs' stores is theirs; whoever asks is told how to remove it.
"""

from collections.abc import Sequence
from pathlib import Path

from junto.errors import LibraryError
from junto.library.found import DEMO, OLLAMA, OWN, Found, Snapshot


def refuse_others(model: Found) -> None:
    """LibraryError that says how, where a model lies in another program's store."""
    if model.origin == OLLAMA:
        raise LibraryError(
            f"{model.name}: it lies in Ollama's store, which junto leaves alone; remove it with:"
            f" ollama rm {model.name}"
        )
    if model.origin == DEMO:
        raise LibraryError(f"{model.name}: it comes with junto and stays with it")
    if model.snapshot is None and model.origin != OWN:
        raise LibraryError(
            f"{model.name}: it lies in a folder of {model.origin}, which junto leaves alone; remove"
            f" it there: {model.path}"
        )


def remove(model: Found, others: Sequence[Found]) -> int:
    """Remove the files of a model and return the bytes that are free now.

    others    the other models that are here: files of the cache that they share stay
    """
    refuse_others(model)
    if model.snapshot is None:
        return _remove_files(model.files)
    return _remove_from_cache(model, model.snapshot, others)


def _remove_from_cache(model: Found, snapshot: Snapshot, others: Sequence[Found]) -> int:
    from huggingface_hub import scan_cache_dir

    folder = snapshot.folder.resolve()
    cache = scan_cache_dir(folder.parents[2])
    if any(other.snapshot == snapshot for other in others):
        wanted = {folder / file.relative_to(snapshot.folder) for file in model.files}
        revisions = (revision for repo in cache.repos for revision in repo.revisions)
        files = {file for revision in revisions for file in revision.files}
        strategy = cache.delete_files(*(file for file in files if file.file_path in wanted))
    else:
        strategy = cache.delete_revisions(snapshot.commit)
    strategy.execute()
    return strategy.expected_freed_size


def _remove_files(files: Sequence[Path]) -> int:
    """Remove files; of a link the link alone, which frees nothing."""
    freed = sum(file.stat().st_size for file in files if not file.is_symlink())
    for file in files:
        file.unlink()
    return freed
