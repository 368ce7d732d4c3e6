"""Conversion of a model file: what is asked for, checked before a byte is written, then written.

A target named *.gguf becomes a GGUF, any other a folder of safetensors. Files appear whole or not
at all; memory does not depend on their size.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from junto.convert.checkpoint_folder import write_folder
from junto.convert.content import Content, Draft, from_checkpoint, from_gguf
from junto.convert.metadata_edits import edited
from junto.convert.progress import Progress, counted
from junto.convert.recoding import Recoder
from junto.convert.summary import Summary, summarise
from junto.convert.types import RECIPES, Choice, Types
from junto.errors import DiskError, RequestError
from junto.formats.gguf import GGUFFile, read_gguf
from junto.formats.gguf_encoding import OutValue
from junto.formats.gguf_split_writer import write_gguf_parts
from junto.formats.gguf_writer import write_gguf
from junto.formats.out_tensor import Advance, OutTensor
from junto.formats.safetensors import Checkpoint
from junto.models.loading import open_file
from junto.quantize import ImportanceMatrix, read_importance

__all__ = ["Summary", "Wishes", "convert", "join"]


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a file is to be converted.

    type             name of a recipe (`RECIPES`); None leaves types as they are
    keep             (pattern of tensor names, type), the last that fits counts
    imatrix          file of an importance matrix
    draft            what becomes of layers that draft tokens
    metadata         (key, value as text) to be set in a GGUF, see `metadata_edits`
    max_part_bytes   the most bytes of a part, if the GGUF is to be in parts
    force            whether files that exist are replaced
    """

    type: str | None = None
    keep: tuple[tuple[str, str], ...] = ()
    imatrix: Path | None = None
    draft: Draft = "keep"
    metadata: tuple[tuple[str, str], ...] = ()
    max_part_bytes: int | None = None
    force: bool = False


def convert(
    source: str | Path, target: str | Path, wishes: Wishes, progress: Progress | None = None
) -> Summary:
    """Write a model file as another, and say what was written.

    source   a GGUF or any part of one, a safetensors file or its folder
    target   a *.gguf, or a folder of safetensors

    JuntoError in one line, and nothing left behind, where the source is broken, the target exists,
    the disk is full, or a type cannot be had.
    """
    source, target = Path(source), Path(target)
    _check(wishes)
    if target.suffix != ".gguf":
        return write_folder(
            open_file(source), target, wishes.type, _refuse_for_folder(wishes), progress
        )
    _refuse_existing(target, wishes)
    content = _content(open_file(source), wishes)
    importance = read_importance(wishes.imatrix) if wishes.imatrix else None
    metadata = edited(content.metadata, wishes.metadata)
    tensors, notes = _chosen(content, wishes, importance)
    files = _write(target, metadata, tensors, wishes.max_part_bytes, counted(tensors, progress))
    return summarise(files, tensors, (*content.notes, *notes))


def join(
    source: str | Path, target: str | Path, *, force: bool = False, progress: Progress | None = None
) -> Summary:
    """Write the parts of a split GGUF, of which `source` is any, as one file.

    RequestError if the source is one file already; else as `convert`.
    """
    file = read_gguf(source)
    if len(file.files) < 2:
        raise RequestError(f"{file.path.name}: is one file already; there is nothing to join")
    return convert(source, target, Wishes(force=force), progress)


def _check(wishes: Wishes) -> None:
    """Refuse what needs no file to be seen as wrong."""
    Types(wishes.type, wishes.keep, n_layer=0, is_tied=False, floats=False)
    if wishes.imatrix is not None and wishes.type is None and not wishes.keep:
        raise RequestError("an importance matrix weighs quantisation; say what --type to make")


def _refuse_for_folder(wishes: Wishes) -> bool:
    """Whether to replace; RequestError for wishes that only a GGUF can meet."""
    only_gguf = ("--keep", wishes.keep), ("--imatrix", wishes.imatrix), ("--set", wishes.metadata)
    for name, value in only_gguf:
        if value:
            raise RequestError(f"{name} is for GGUF files; name the target *.gguf")
    if wishes.max_part_bytes is not None:
        raise RequestError("--split-max-size is for GGUF files; safetensors come in shards of 5 GB")
    return wishes.force


def _refuse_existing(target: Path, wishes: Wishes) -> None:
    in_parts = wishes.max_part_bytes is not None
    parts = target.parent.glob(f"{target.stem}-?????-of-?????.gguf") if in_parts else ()
    found = sorted(parts) if in_parts else [target] if target.exists() else []
    if found and not wishes.force:
        raise DiskError(f"{found[0]}: exists already; choose another name, or --force replaces it")


def _content(file: GGUFFile | Checkpoint, wishes: Wishes) -> Content:
    recipe = RECIPES[wishes.type] if wishes.type else None
    if isinstance(file, GGUFFile):
        return from_gguf(file, wishes.draft, recipe)
    return from_checkpoint(file, wishes.draft, recipe)


def _chosen(
    content: Content, wishes: Wishes, importance: ImportanceMatrix | None
) -> tuple[list[OutTensor], list[str]]:
    """Each tensor in the type it gets, and notes on what that was not as asked."""
    types = Types(
        wishes.type,
        wishes.keep,
        n_layer=content.n_layer,
        is_tied=content.is_tied,
        floats=content.floats,
    )
    recoder, instead, tensors = Recoder.make(), Counter[tuple[str, str]](), []
    n_made = n_weighed = 0
    for named in content.tensors:
        now = named.parts[0].type
        choice = types.of(named.name, named.shape, now)
        instead.update(_instead(choice))
        weights = None
        if importance is not None and choice.type not in (now,) and choice.type.n_per_block > 1:
            weights = importance.of(named.name, named.shape)
            n_made, n_weighed = n_made + 1, n_weighed + (weights is not None)
        tensors.append(recoder.out(named, choice.type, weights))
    types.refuse_unused()
    notes = [
        f"{n} tensors: {got} in place of {meant}, whose blocks do not divide their rows"
        for (meant, got), n in instead.items()
    ]
    if importance is not None:
        notes.append(f"{n_weighed} of {n_made} quantised tensors were weighed by importance")
    return tensors, notes


def _instead(choice: Choice) -> list[tuple[str, str]]:
    return [] if choice.meant is None else [(choice.meant.name, choice.type.name)]


def _write(
    target: Path,
    metadata: Mapping[str, OutValue],
    tensors: list[OutTensor],
    max_part_bytes: int | None,
    advance: Advance | None,
) -> list[Path]:
    if max_part_bytes is None:
        write_gguf(target, metadata, tensors, advance)
        return [target]
    return write_gguf_parts(
        target.with_suffix(""), metadata, tensors, max_bytes=max_part_bytes, advance=advance
    )
