"""`junto convert`: a model file into another, with a bar while it runs and a table at the end."""

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from junto.cli.default_model import chosen_model
from junto.cli.loading_bar import loading_bar

if TYPE_CHECKING:
    from junto.convert import Summary

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class Draft(StrEnum):
    """What becomes of the layer that drafts tokens."""

    KEEP = "keep"
    DROP = "drop"


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SRC",
            help="A GGUF or any part of one, a safetensors file or its folder, or a model's name.",
            show_default=False,
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="DST",
            help="What to write: NAME.gguf, or a folder for safetensors.",
            show_default=False,
        ),
    ],
    type_: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="F32 F16 BF16 Q8_0 Q6_K Q5_K_M Q5_K Q5_1 Q5_0 Q4_K_M Q4_K Q4_1 Q4_0 IQ4_NL Q3_K"
            " Q2_K MXFP4; if left out, tensors stay as they are (in a folder: BF16).",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=TYPE",
            help="Give tensors whose name fits another type, as attn_v=Q6_K or 'blk.0.*=F16'; may"
            " be repeated, the last that fits counts.",
            show_default=False,
        ),
    ] = None,
    imatrix: Annotated[
        Path | None,
        typer.Option(help="An importance matrix to weigh errors by.", show_default=False),
    ] = None,
    draft: Annotated[
        Draft, typer.Option(help="Whether layers that draft tokens are taken along.")
    ] = Draft.KEEP,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set metadata, as general.name=Mine or tokenizer.chat_template=@template.jinja"
            " (a file's content); may be repeated.",
            show_default=False,
        ),
    ] = None,
    split_max_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Write parts DST-00001-of-0000N.gguf of at most this size: 5G, 500M.",
            show_default=False,
        ),
    ] = None,
    join: Annotated[
        bool, typer.Option("--join", help="Write a GGUF in parts as one file.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Convert a model: safetensors to GGUF, a GGUF to other types or parts, either to safetensors.

    The table tells what was written, by type. Nothing is left behind when it fails or is stopped.

    Examples:

        junto convert Qwen3.5-35B-A3B/ qwen.gguf --type Q4_K_M

        junto convert model-BF16.gguf small.gguf --type Q4_K --keep attn_v=Q6_K

        junto convert gpt-oss-20b/ gpt-oss-20b-bf16/ --type BF16

        junto convert model-00001-of-00003.gguf model.gguf --join
    """
    from junto.convert import Wishes
    from junto.convert import convert as run_conversion
    from junto.convert import join as run_join

    if join and (type_ or keep or imatrix or split_max_size or set_):
        raise typer.BadParameter("--join copies; leave the other options out, or leave it out")
    wishes = Wishes(
        type=type_,
        keep=tuple(map(_pair, keep or ())),
        imatrix=imatrix,
        draft=draft.value,
        metadata=tuple(map(_edit, set_ or ())),
        max_part_bytes=None if split_max_size is None else n_bytes(split_max_size),
        force=force,
    )
    source = chosen_model(source)
    with loading_bar(target.name, "writing") as progress:
        if join:
            summary = run_join(source, target, force=force, progress=progress)
        else:
            summary = run_conversion(source, target, wishes, progress)
    _report(summary)


def _pair(text: str) -> tuple[str, str]:
    pattern, _, kind = text.rpartition("=")
    if not pattern or not kind:
        raise typer.BadParameter(f"--keep is {text!r}, expected PATTERN=TYPE, as attn_v=Q6_K")
    return pattern, kind


def _edit(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise typer.BadParameter(f"--set is {text!r}, expected KEY=VALUE, as general.name=Mine")
    return key, value


def n_bytes(text: str) -> int:
    """Bytes of a size such as 500M or 4.5G; a thousand is 1000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip().upper())
    if found is None or not (size := int(float(found[1]) * _UNITS[found[2]])):
        raise typer.BadParameter(
            f"--split-max-size is {text!r}, expected a size such as 5G or 500M"
        )
    return size


def _report(summary: "Summary") -> None:
    for note in summary.notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"{'type':8}{'tensors':>9}{'values':>16}{'MB':>13}{'bits/weight':>13}")
    for share in (*summary.shares, summary.total):
        print(
            f"{share.type:8}{share.n_tensor:9,}{share.n_value:16,}{share.n_bytes / 1e6:13,.1f}"
            f"{share.bits_per_weight:13.2f}"
        )
    for file in summary.files:
        print(f"wrote {file}")
