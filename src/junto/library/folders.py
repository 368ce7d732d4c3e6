"""Models in plain folders: those of JUNTO_MODELS, LM Studio's, llama.cpp's."""

from collections.abc import Iterator
from pathlib import Path

from junto.library.files import config_type, paths_in, whole_ggufs, whole_safetensors
from junto.library.found import Found


def models(folder: Path, origin: str) -> Iterator[Found]:
    """All models below a folder, named by their paths in it without `.gguf` and part numbers."""
    paths = paths_in(folder)
    for model in whole_ggufs(paths):
        files = tuple(folder / part for part in model.parts)
        yield Found(model.stem, files[0], files, origin, model.type)
    for path in paths:
        inside, _, name = path.rpartition("/")
        if name == "config.json":
            yield from _safetensors(folder, inside, paths, origin)


def _safetensors(folder: Path, inside: str, paths: list[str], origin: str) -> Iterator[Found]:
    where = folder / inside
    prefix = f"{inside}/" if inside else ""
    beside = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
    if names := whole_safetensors(where, beside):
        files = tuple(where / name for name in names)
        yield Found(inside or folder.name, where, files, origin, config_type(where))
