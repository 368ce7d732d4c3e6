"""From what someone wrote for MODEL to the path of a model.

A path that exists wins. Then those that come with junto (`demo:NAME`), then a name of the hub, long
or short, that is in its cache; then the names that `junto list` shows, with those of Ollama, case
aside. Nothing is fetched.
"""

import difflib
import os
from collections.abc import Iterator
from pathlib import Path

from junto.errors import LibraryError
from junto.library import demos, folders, hub_cache, ollama
from junto.library.found import OLLAMA, OWN, Found
from junto.library.names import read_name
from junto.library.places import (
    Environment,
    hub_folder,
    ollama_stores,
    others_folders,
    own_folders,
)

_FILE_ENDS = (".gguf", ".safetensors", ".json")


def all_models(env: Environment = os.environ) -> Iterator[Found]:
    """Every model that is found on this machine: in the box, of the hub, in folders."""
    yield from demos.models()
    yield from hub_cache.models(hub_folder(env))
    for folder in own_folders(env):
        yield from folders.models(folder, OWN)
    for store in ollama_stores(env):
        yield from ollama.models(store)
    for program, places in others_folders(env).items():
        for folder in places:
            yield from folders.models(folder, program)


def find_model(name: str | os.PathLike[str], env: Environment = os.environ) -> Path:
    """The path of a model by its path or its name.

    What looks like a path and is no name is given back as it is: who opens it says what is missing.
    LibraryError where a name means nothing here, with what to do and the closest names.
    """
    text = os.fspath(name)
    if os.path.exists(text):
        return Path(text)
    if (demo := demos.called(text)) is not None:
        return demo.path
    models = list(all_models(env))
    found = find_among(models, text)
    if found is not None:
        return found.path
    reference = read_name(text)
    if reference is None and _looks_like_a_path(text):
        return Path(text)
    advice = "see junto list" if reference is None else f"get it with: junto pull {text}"
    raise LibraryError(
        f"{text}: no such file, and no model of that name is here; {advice}{_closest(models, text)}"
    )


def find_among(models: list[Found], text: str) -> Found | None:
    """The model that a name means among some; None if there is none."""
    reference = read_name(text)
    in_hub = hub_cache.match(models, reference) if reference else None
    if in_hub is not None:
        return in_hub
    called = [model for model in models if text.lower() in _names(model)]
    return min(called, key=lambda model: _names(model).index(text.lower()), default=None)


def _names(model: Found) -> list[str]:
    """What a model may be called, in small letters; the name that is shown first."""
    name = model.name.lower()
    if model.origin == OLLAMA:
        return [name, name.removesuffix(f":{ollama.LATEST}")]
    return [name, f"{name}.gguf", name.rpartition("/")[2], model.path.name.lower()]


def _looks_like_a_path(text: str) -> bool:
    return text.startswith((".", "/", "~")) or text.lower().endswith(_FILE_ENDS)


def _closest(models: list[Found], text: str) -> str:
    names = {model.name.lower(): model.name for model in models}
    close = difflib.get_close_matches(text.lower(), names, n=3, cutoff=0.5)
    return f" (closest here: {', '.join(names[name] for name in close)})" if close else ""
