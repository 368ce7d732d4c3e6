"""Loads a model for commands that measure it: always the cpu backend, notes on standard error."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from junto.cli.loading_bar import loading_bar
from junto.cli.opening import keep_packed as keep_packed_weights
from junto.cli.options import KVType

if TYPE_CHECKING:
    from junto.model import Model
    from junto.ops.cpu import Cpu


def load_measured(
    path: Path, kv: KVType, threads: int | None, n_slot: int, *, keep_packed: bool
) -> "Model":
    """The model of a file, with room for `n_slot` sequences."""
    import junto

    with loading_bar(path.name) as progress:
        model = junto.load(
            path,
            backend="cpu",
            kv=kv.value,
            n_threads=threads,
            n_slot=n_slot,
            keep_packed=keep_packed,
            progress=progress,
        )
    # Packing and the disk would take time from what is measured.
    keep_packed_weights(model)
    with loading_bar(path.name) as progress:
        model.settle(progress)
    for note in model.notes:
        print(f"note: {note}", file=sys.stderr)
    return model


def cpu_of(model: "Model") -> "Cpu":
    """The backend of such a model."""
    from junto.ops.cpu import Cpu

    ops = model.runner.ops
    assert isinstance(ops, Cpu), "load_measured asks for the cpu backend"
    return ops
