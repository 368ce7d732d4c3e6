"""`junto cache`: what is kept of packed weights, and how to get rid of it."""

from pathlib import Path
from typing import Annotated

import typer

cache = typer.Typer(
    name="cache",
    help="Packed weights that later starts map: list them, remove them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@cache.command("list")
def list_kept() -> None:
    """List packed files: size, and the model file each was made from."""
    from junto.ops.cpu.packed_cache import kept, packed_folder

    files = list(kept())
    for file in files:
        print(f"{file.n_bytes / 1e9:7.2f} GB  {_origin(file.source)}")
    total = sum(file.n_bytes for file in files)
    print(f"{total / 1e9:7.2f} GB  in {len(files)} files in {packed_folder()}")


@cache.command("clear")
def clear_kept(
    stale: Annotated[
        bool, typer.Option("--stale", help="Only those whose model file is gone.")
    ] = False,
) -> None:
    """Remove packed files; the next start of each model packs its weights again.

    Models that are running keep theirs until they end.
    """
    from junto.ops.cpu.packed_cache import clear

    removed = clear(only_stale=stale)
    print(f"removed {len(removed)} files, {sum(file.n_bytes for file in removed) / 1e9:.2f} GB")


def _origin(source: Path | None) -> str:
    if source is None:
        return "(not readable)"
    return str(source) if source.exists() else f"{source} (gone)"
