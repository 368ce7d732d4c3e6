"""`junto list`: the models that are found on this machine, wherever they lie."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from junto.cli.table import table

if TYPE_CHECKING:
    from junto.library.found import Found


def list_models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Write a JSON array instead of the table.")
    ] = False,
) -> None:
    """List models: names that a MODEL argument takes, type of weights, size, place.

    Found are those in the hub's cache, in the folders of JUNTO_MODELS, and those of Ollama, LM
    Studio and llama.cpp.

    Examples:

        junto list

        JUNTO_MODELS=/data/models:~/gguf junto list --json | jq -r '.[].path'
    """
    from junto.library.find import all_models

    models = list(all_models())
    if as_json:
        print(json.dumps([_as_json(model) for model in models], indent=1))
    elif models:
        print(table(("name", "type", "in", "GB"), [_cells(model) for model in models], n_left=3))
    else:
        print("no models found; get one with: junto pull gpt-oss:20b (or name a file)")


def _cells(model: "Found") -> list[str]:
    return [model.name, model.type or "", _place(model), f"{model.n_bytes / 1e9:.2f}"]


def _place(model: "Found") -> str:
    """Whose store it is, and for a plain folder the path."""
    return model.origin if model.snapshot else f"{model.origin}: {model.path}"


def _as_json(model: "Found") -> dict[str, Any]:
    return {
        "name": model.name,
        "type": model.type,
        "origin": model.origin,
        "n_bytes": model.n_bytes,
        "path": str(model.path),
        "files": [str(file) for file in model.files],
    }
