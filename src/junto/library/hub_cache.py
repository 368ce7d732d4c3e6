"""Models in the hub's cache, read where they lie, without huggingface_hub.

    models--ORG--REPO/refs/main               the commit that main was at
    models--ORG--REPO/snapshots/COMMIT/...    files of a commit, links into blobs/

Source: "Understand caching", docs of huggingface_hub.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from junto.errors import LibraryError
from junto.library.choice import Gguf, choose
from junto.library.files import config_type, paths_in, whole_ggufs, whole_safetensors
from junto.library.found import HUB, Found, Snapshot
from junto.library.names import Reference

MAIN = "main"


def models(cache: Path) -> Iterator[Found]:
    """All models in the cache; those of a repository with the snapshot of main first."""
    for folder in sorted(cache.glob("models--*--*")):
        repo = folder.name.removeprefix("models--").replace("--", "/", 1)
        for snapshot in _snapshots(repo, folder):
            yield from _models_of(snapshot)


def match(found: Iterable[Found], wanted: Reference) -> Found | None:
    """The model that a name means among those of the cache; None if it is not there."""
    here = [(f.snapshot, f) for f in found if f.snapshot and _is_meant(f.snapshot, wanted)]
    for snapshot, group in groupby(here, key=lambda pair: pair[0]):
        by_path = {
            file.relative_to(snapshot.folder).as_posix(): model
            for _, model in group
            for file in model.files
        }
        try:
            return by_path[choose(list(by_path), wanted)[0]]
        except LibraryError:
            continue  # an older snapshot may hold what this one does not
    return None


def _is_meant(snapshot: Snapshot, wanted: Reference) -> bool:
    same = snapshot.repo.lower() == wanted.repo.lower()
    return same and (wanted.revision is None or snapshot.is_at(wanted.revision))


def _snapshots(repo: str, folder: Path) -> list[Snapshot]:
    refs = _refs(folder / "refs")
    found = [
        Snapshot(repo, path, tuple(sorted(ref for ref, commit in refs if commit == path.name)))
        for path in sorted((folder / "snapshots").glob("*"))
    ]
    return sorted(found, key=lambda snapshot: MAIN not in snapshot.refs)


def _refs(folder: Path) -> list[tuple[str, str]]:
    return [(path, (folder / path).read_text("utf-8").strip()) for path in paths_in(folder)]


def _models_of(snapshot: Snapshot) -> Iterator[Found]:
    paths = paths_in(snapshot.folder)
    whole = list(whole_ggufs(paths))
    n_of_type = Counter(model.type for model in whole)
    for model in whole:
        is_only = n_of_type[model.type] == 1
        yield _found(snapshot, _name(snapshot, model, is_only), model.parts, model.type)
    if files := whole_safetensors(snapshot.folder, paths):
        name = str(Reference(snapshot.repo, revision=_revision(snapshot)))
        yield _found(snapshot, name, files, config_type(snapshot.folder), is_folder=True)


def _found(
    snapshot: Snapshot,
    name: str,
    paths: Iterable[str],
    type_name: str | None,
    *,
    is_folder: bool = False,
) -> Found:
    files = tuple(snapshot.folder / path for path in paths)
    return Found(name, snapshot.folder if is_folder else files[0], files, HUB, type_name, snapshot)


def _name(snapshot: Snapshot, model: Gguf, is_only: bool) -> str:
    revision = _revision(snapshot)
    if model.type is not None and is_only:
        return str(Reference(snapshot.repo, type=model.type, revision=revision))
    return str(Reference(snapshot.repo, file=model.parts[0], revision=revision))


def _revision(snapshot: Snapshot) -> str | None:
    if MAIN in snapshot.refs:
        return None
    return snapshot.refs[0] if snapshot.refs else snapshot.commit[:12]
