"""Opens the model that a command names: a bar while weights are packed, then its notes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from junto.cli.default_model import chosen_model
from junto.cli.loading_bar import loading_bar
from junto.cli.options import Backend, KVType

if TYPE_CHECKING:
    from junto.model import Model


def open_model(
    path: Path | None,
    backend: Backend,
    kv: KVType,
    n_ctx: int | None,
    threads: int | None,
    *,
    no_cache: bool,
) -> "Model":
    """The loaded model; without a path the one that runs when none is named."""
    # Imported here, so that help is quick.
    import junto

    path = chosen_model(path)
    with loading_bar(path.name) as progress:
        model = junto.load(
            path,
            backend=backend.value,
            kv=kv.value,
            n_ctx=n_ctx,
            n_threads=threads,
            keep_packed=not no_cache,
            progress=progress,
        )
    for note in model.notes:
        print(f"note: {note}", file=sys.stderr)
    if sys.stderr.isatty():
        print(f"context: {model.n_ctx:,} tokens", file=sys.stderr)
    return model


def keep_packed(model: "Model") -> None:
    """Wait, with a bar, until packed weights are kept for the next start; Ctrl-C does without.

    Where none are to be kept, there is nothing to wait for.
    """
    if not model.is_keeping:
        return
    with loading_bar(f"{model.name} for the next start (Ctrl-C skips)", "keeping") as tell:
        try:
            model.settle(tell)
        except KeyboardInterrupt:
            print("note: packed weights are not kept", file=sys.stderr)
