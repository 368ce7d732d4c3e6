"""`junto verify`: this file on this CPU, kernels against the reference, layer by layer.

The table goes to standard output; progress and what was chosen go to standard error.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from junto.cli.default_model import chosen_model
from junto.cli.exit_code import ExitCode
from junto.cli.measured import cpu_of, load_measured
from junto.cli.options import Debug, KVChosen, KVType, ModelPath, NoCache, Threads
from junto.cli.progress import progress
from junto.cli.table import table

if TYPE_CHECKING:
    from junto.measure.lockstep import Row
    from junto.model import Model

N_TOKEN = 31
"""Tokens of the prompt: a tile of 16 rows and one of each smaller size."""


def verify(
    context: typer.Context,
    model: ModelPath = None,
    every: Annotated[
        bool, typer.Option("--all", help="All layers, not a sample; minutes for a big file.")
    ] = False,
    n_tok: Annotated[
        int, typer.Option("-p", "--n-prompt", min=1, help="Tokens of the prompt; one more follows.")
    ] = N_TOKEN,
    threads: Threads = None,
    kv: KVChosen = KVType.AUTO,
    seed: Annotated[int, typer.Option(min=0, help="Of the random tokens.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object instead of the table.")
    ] = False,
    no_cache: NoCache = False,
    debug: Debug = False,
) -> None:
    """Compare what the kernels make of a file with what the NumPy reference makes of it.

    Each op of each layer runs in both, from the same inputs, so that errors do not add up; then
    each layer as a whole, and the logits. Errors are relative: mean over the tokens, and largest.
    The exit code is 1 where an error is beyond its bound.

    Examples:

        junto verify model.gguf

        junto verify model.gguf --all --json | jq '.rows[] | select(.ok | not)'

        JUNTO_ISA=avx2 junto verify model.gguf
    """
    if context.obj is not None:
        context.obj.debug = debug
    path = chosen_model(model)
    loaded = load_measured(path, kv, threads, 1, keep_packed=not no_cache)
    level, rows = cpu_of(loaded).level, _compare(loaded, path, every, n_tok, seed)
    wrong = [row for row in rows if not row.is_ok]
    if as_json:
        figures = [_figures(row) for row in rows]
        print(json.dumps({"model": path.name, "level": level, "ok": not wrong, "rows": figures}))
    else:
        print(table(_HEAD, [_cells(row) for row in rows], n_left=2))
        print()
        print(_verdict(path.name, level, rows, wrong), flush=True)
    if wrong:
        raise typer.Exit(ExitCode.ERROR)


def _compare(loaded: "Model", path: Path, every: bool, n_tok: int, seed: int) -> "list[Row]":
    from junto.measure.check import Plan, compare, sample_layers
    from junto.models.loading import locate, open_file

    blueprint = locate(open_file(path))
    n_layer = loaded.config.n_layer
    chosen = range(n_layer) if every else sample_layers(loaded.runner, blueprint)
    plan = Plan(tuple(chosen), n_tok, seed)
    print(_choice(plan.layers, n_layer), file=sys.stderr)
    with progress("verifying", plan.n_part) as advance:
        rows = compare(loaded.runner, blueprint, plan, lambda part: advance(f"layer {part}"))
    return rows


def _choice(layers: Sequence[int], n_layer: int) -> str:
    if len(layers) == n_layer:
        return f"comparing all {n_layer} layers, embedding and head"
    return (
        f"comparing layers {', '.join(map(str, layers))} of {n_layer} (first, middle, last, one of"
        " each kind; --all for all), embedding and head"
    )


_HEAD = ("layer", "what", "mean error", "largest", "bound", "ok")


def _cells(row: "Row") -> list[str]:
    found = row.difference
    ok = "yes" if row.is_ok else "NO"
    figures = (f"{found.mean:.1e}", f"{found.largest:.1e}", f"{row.bound:.0e}")
    return [str(row.part), row.what, *figures, ok]


def _figures(row: "Row") -> dict[str, Any]:
    found = row.difference
    return {
        "part": row.part,
        "what": row.what,
        "mean": _finite(found.mean),
        "largest": _finite(found.largest),
        "bound": row.bound,
        "ok": row.is_ok,
    }


def _finite(value: float) -> float | None:
    """The value; None for infinity, which JSON does not have."""
    return value if value < float("inf") else None


def _verdict(name: str, level: str, rows: "Sequence[Row]", wrong: "Sequence[Row]") -> str:
    if not wrong:
        return f"{name} on {level}: all {len(rows)} results are within their bounds"
    return (
        f"{name} on {level}: {len(wrong)} of {len(rows)} results are beyond their bounds; please"
        " report it with the output of junto doctor"
    )
