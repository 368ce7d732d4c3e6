"""`junto inspect`: what a model file holds, and what running it would take."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from junto.cli.default_model import chosen_model
from junto.cli.progress import progress
from junto.cli.table import table

if TYPE_CHECKING:
    from junto.formats.tensor import Tensor
    from junto.inspection import Overview, Statistics


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="A GGUF or any part of one, a safetensors file or its folder, or a model's name.",
            show_default=False,
        ),
    ],
    tensors: Annotated[
        bool, typer.Option("--tensors", help="List tensors: shape, type, bytes, offset.")
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Read tensors and tell their figures; takes a while.")
    ] = False,
    layer: Annotated[
        int | None,
        typer.Option(min=0, help="Tensors of this layer alone.", show_default=False),
    ] = None,
    n_ctx: Annotated[
        int | None,
        typer.Option(min=1, help="Plan memory for this context.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
) -> None:
    """Tell a file's architecture, sizes, types, context, dialogue, speed to expect and memory.

    Damaged files and vocabularies without tensors are told as far as they go; what is wrong stands
    at the end.

    Examples:

        junto inspect model.gguf

        junto inspect model.gguf --tensors --layer 3

        junto inspect model.gguf --stats --json > model.json
    """
    file = chosen_model(file)
    if tensors or stats or layer is not None:
        _tell_tensors(file, stats, layer, as_json)
        return
    from junto.inspection import inspect as look

    found = look(file, n_ctx)
    if as_json:
        print(json.dumps(_plain(asdict(found)), indent=1))
        return
    for line in _lines(found):
        print(line)
    _tell_faults(found.faults)


def _lines(found: "Overview") -> Iterator[str]:
    n_file = f"{len(found.files)} files" if len(found.files) > 1 else "1 file"
    yield f"{found.path}: {found.format}, {n_file}, {_gb(found.n_bytes)}"
    for name, value in _facts(found):
        yield f"  {name:<13} {value}"
    if found.mix:
        yield ""
        yield _mix(found)
    if found.plans:
        yield ""
        yield _memory(found)


def _facts(found: "Overview") -> Iterator[tuple[str, str]]:
    yield "architecture", f"{found.architecture or 'not told'} ({found.name or 'no name'})"
    if found.sizes is not None:
        sizes, active = found.sizes, _count(found.sizes.n_parameter_active)
        yield "parameters", f"{_count(sizes.n_parameter)}, {active} a token"
    if "n_layer" in found.config:
        yield "layers", f"{found.config['n_layer']} of width {found.config['n_embd']:,}"
        yield "context", f"{found.config['n_ctx_train']:,} tokens"
    if found.talk is not None:
        talks = "conversations" if found.talk.can_chat else "no chat template"
        yield "vocabulary", f"{found.talk.n_vocab:,} tokens; {found.talk.dialogue}, {talks}"
    if found.speed is not None:
        speed = found.speed
        yield (
            "speed",
            f"at most about {speed.tokens_per_s:,.1f} tokens/s, an estimate: "
            f"{_gb(speed.n_bytes_token)} a token, {speed.read_gb_per_s:.1f} GB/s of memory",
        )


def _mix(found: "Overview") -> str:
    rows = [
        [s.type, f"{s.n_tensor:,}", f"{s.n_value:,}", _gb(s.n_bytes), f"{100 * s.share:.1f} %"]
        for s in found.mix
    ]
    return table(["type", "tensors", "values", "size", "share"], rows)


def _memory(found: "Overview") -> str:
    """A row for each way to hold keys and values, a column for each context."""
    contexts = list(dict.fromkeys(planned.plan.n_ctx for planned in found.plans))
    names = list(dict.fromkeys(planned.plan.kv_name for planned in found.plans))
    rows = []
    for name in names:
        of_it = [planned for planned in found.plans if planned.plan.kv_name == name]
        cells = [_gb(p.plan.total) + ("" if p.fits else " (too much)") for p in of_it]
        rows.append([name, *cells, f"{of_it[0].longest:,}" if of_it[0].longest else "none"])
    head = ["memory, kv", *(f"n_ctx {n:,}" for n in contexts), "longest that fits"]
    free = "not told by the system" if found.free is None else _gb(found.free)
    return f"{table(head, rows)}\nfree now: {free}"


def _tell_tensors(file: Path, stats: bool, layer: int | None, as_json: bool) -> None:
    from junto.inspection.listing import entries, of_layer
    from junto.inspection.overview import open_for_survey

    opened, faults = open_for_survey(file)
    chosen = list(opened.tensors.values())
    if layer is not None:
        chosen = of_layer(chosen, layer)
        if not chosen:
            raise typer.BadParameter(f"--layer: {file.name} has no tensors of layer {layer}")
    listed = entries(chosen)
    readable = [t for t, entry in zip(chosen, listed, strict=True) if entry.offset is not None]
    figures = dict(_figures(readable)) if stats else {}
    if as_json:
        rows = [{**asdict(e), **_as_json(figures.get(e.name))} for e in listed]
        print(json.dumps(_plain({"tensors": rows, "faults": list(faults)}), indent=1))
        return
    head = ["tensor", "shape", "type", "bytes", "offset", *(_FIGURES if stats else ())]
    cells = [
        [
            e.name,
            " x ".join(map(str, e.shape)),
            e.type,
            f"{e.n_bytes:,}",
            "not there" if e.offset is None else f"{e.offset:,}",
            *(_shown(figures.get(e.name)) if stats else ()),
        ]
        for e in listed
    ]
    print(table(head, cells))
    for name, found in figures.items():
        if found.blocks is not None:
            _tell_blocks(name, found)
    _tell_faults(faults)


_FIGURES = ("min", "max", "mean", "std", "NaN", "inf", "zeros")


def _figures(tensors: "Sequence[Tensor]") -> "Iterator[tuple[str, Statistics]]":
    from junto.convert.recoding import Recoder
    from junto.inspection.statistics import statistics

    recoder = Recoder.make()
    with progress("reading", len(tensors)) as advance:
        for tensor in tensors:
            advance(tensor.name)
            yield tensor.name, statistics(tensor, recoder)


def _shown(found: "Statistics | None") -> list[str]:
    if found is None:
        return [""] * len(_FIGURES)
    numbers = [f"{x:.4g}" for x in (found.min, found.max, found.mean, found.std)]
    return [*numbers, f"{found.n_nan:,}", f"{found.n_inf:,}", f"{100 * found.zeros:.2f} %"]


def _tell_blocks(name: str, found: "Statistics") -> None:
    blocks = found.blocks
    assert blocks is not None, "asked for MXFP4 alone"
    shares = " ".join(f"{100 * n / sum(blocks.codes):.1f}" for n in blocks.codes)
    print(f"{name}: scales 2^{blocks.low} to 2^{blocks.high}; codes 0-15 in %: {shares}")


def _as_json(found: "Statistics | None") -> dict[str, Any]:
    return {} if found is None else {"stats": asdict(found)}


def _plain(value: Any) -> Any:
    """What JSON can hold: NaN becomes null, a path its text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def _tell_faults(faults: Iterable[str]) -> None:
    for fault in faults:
        print(f"note: {fault}", file=sys.stderr)


def _gb(n_bytes: int) -> str:
    from junto.memory_plan import gb

    return gb(n_bytes)


def _count(n: int) -> str:
    return f"{n / 1e9:.2f} B" if n >= 10**9 else f"{n / 1e6:.2f} M"
