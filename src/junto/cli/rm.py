"""`junto rm`: removes a model from the hub's cache or from JUNTO_MODELS, after asking."""

import sys
from typing import Annotated

import typer

from junto.cli.options import Debug
from junto.errors import LibraryError


def rm(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A name that junto list shows.", show_default=False),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")] = False,
    debug: Debug = False,
) -> None:
    """Remove a model from the hub's cache or from a folder of JUNTO_MODELS.

    Files that another model shares stay. Other programs' stores are left alone.

    Examples:

        junto rm gpt-oss:20b

        junto rm unsloth/Qwen3.5-35B-A3B-GGUF:Q8_0 --yes
    """
    if context.obj is not None:
        context.obj.debug = debug
    from junto.library.find import all_models, find_among
    from junto.library.removal import refuse_others, remove

    models = list(all_models())
    model = find_among(models, name)
    if model is None:
        raise LibraryError(f"{name}: no model of that name is here; see junto list")
    refuse_others(model)
    print(f"{model.name}: {len(model.files)} files, {model.n_bytes / 1e9:.2f} GB, {model.path}")
    if not yes:
        _ask()
    freed = remove(model, [other for other in models if other != model])
    print(f"removed; {freed / 1e9:.2f} GB are free")
    print("packed weights of models that are gone: junto cache clear --stale", file=sys.stderr)


def _ask() -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody to ask here; --yes removes without asking")
    typer.confirm("Remove it?", abort=True)
