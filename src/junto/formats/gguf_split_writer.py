"""Writes a GGUF in parts, as llama.cpp's gguf-split does, and joins parts to one file.

Parts appear together or not at all. The first holds the metadata; each also tells which part of how
many it is (`gguf_split` has the keys), and a fingerprint of the model's metadata and tensors, by
which parts of two models are told apart.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from junto.errors import FormatError, RequestError
from junto.formats.atomic_file import write_files
from junto.formats.gguf import read_gguf
from junto.formats.gguf_encoding import OutValue
from junto.formats.gguf_split import (
    COUNT,
    FINGERPRINT,
    MAX_PARTS,
    N_TENSOR,
    NO,
    PREFIX,
    part_name,
)
from junto.formats.gguf_writer import Layout, n_bytes_info, padded, write_gguf
from junto.formats.mapped_file import quoted
from junto.formats.out_tensor import Advance, OutTensor

__all__ = ["join_gguf", "split_gguf", "write_gguf_parts"]


def split_gguf(
    source: str | Path,
    stem: str | Path,
    *,
    n_part: int | None = None,
    max_bytes: int | None = None,
    advance: Advance | None = None,
) -> list[Path]:
    """Write a GGUF file, whole or in other parts, as the parts STEM-00001-of-NNNNN.gguf and so on.

    Arguments, results and errors are those of `write_gguf_parts`, and FormatError of the source.
    """
    file = read_gguf(source)
    tensors = [OutTensor.copy(tensor) for tensor in file.tensors.values()]
    return write_gguf_parts(
        stem, file.stored, tensors, n_part=n_part, max_bytes=max_bytes, advance=advance
    )


def join_gguf(source: str | Path, path: str | Path, advance: Advance | None = None) -> None:
    """Write the parts of a model, of which `source` is any, as one file.

    FormatError where `read_gguf` raises it; DiskError if there is no room.
    """
    file = read_gguf(source)
    tensors = [OutTensor.copy(tensor) for tensor in file.tensors.values()]
    write_gguf(path, _without_split(file.stored), tensors, advance)


def write_gguf_parts(
    stem: str | Path,
    metadata: Mapping[str, OutValue],
    tensors: Sequence[OutTensor],
    *,
    n_part: int | None = None,
    max_bytes: int | None = None,
    advance: Advance | None = None,
) -> list[Path]:
    """Write a GGUF in parts STEM-00001-of-NNNNN.gguf and so on; return their paths.

    n_part      parts of about equal size, each with a tensor
    max_bytes   or parts of at most so many bytes, as few as the order of tensors allows

    RequestError unless one of the two is given, and can be met; FormatError if GGUF cannot hold a
    key or tensor; DiskError if there is no room for all parts.
    """
    stem, metadata = Path(stem), _without_split(metadata)
    try:
        whole = Layout(metadata, tensors)
        split = _Split(metadata, len(tensors), _fingerprint(whole))
        groups = _groups(split, whole.alignment, tensors, n_part, max_bytes)
        layouts = [
            Layout(split.metadata_of(i, len(groups)), group) for i, group in enumerate(groups)
        ]
    except FormatError as error:
        raise FormatError(f"{stem.name}: {error}") from None
    paths = [stem.with_name(part_name(stem.name, i, len(groups))) for i in range(len(groups))]
    write_files([lay.file(path, advance) for path, lay in zip(paths, layouts, strict=True)])
    return paths


@dataclass(frozen=True, slots=True)
class _Split:
    """What the keys of every part are made from."""

    metadata: Mapping[str, OutValue]
    n_tensor: int
    fingerprint: str

    def metadata_of(self, index: int, count: int) -> dict[str, OutValue]:
        """Return the keys of a part; llama.cpp wants these types of the first three."""
        alone = {k: v for k, v in self.metadata.items() if k == "general.alignment"}
        return {
            **(self.metadata if index == 0 else alone),
            NO: np.uint16(index),
            COUNT: np.uint16(count),
            N_TENSOR: np.int32(self.n_tensor),
            FINGERPRINT: self.fingerprint,
        }


def _fingerprint(whole: Layout) -> str:
    return hashlib.blake2b(whole.header, digest_size=16).hexdigest()


def _without_split(metadata: Mapping[str, OutValue]) -> dict[str, OutValue]:
    return {key: value for key, value in metadata.items() if not key.startswith(PREFIX)}


def _groups(
    split: _Split,
    alignment: int,
    tensors: Sequence[OutTensor],
    n_part: int | None,
    max_bytes: int | None,
) -> list[list[OutTensor]]:
    if n_part is not None and max_bytes is None:
        groups = _even_groups(tensors, n_part)
    elif max_bytes is not None and n_part is None:
        groups = _bounded_groups(split, alignment, tensors, max_bytes)
    else:
        raise RequestError("a split needs a number of parts, or the most bytes of one: give one")
    if len(groups) > MAX_PARTS:
        raise RequestError(f"{len(groups)} parts, expected at most {MAX_PARTS}; make them larger")
    return groups


def _even_groups(tensors: Sequence[OutTensor], n_part: int) -> list[list[OutTensor]]:
    """Cut where the bytes before come closest to an equal share, no group left empty."""
    if not 1 <= n_part <= len(tensors):
        raise RequestError(f"{n_part} parts, expected 1 to {len(tensors)}, the number of tensors")
    groups: list[list[OutTensor]] = [[] for _ in range(n_part)]
    total, before, last = sum(tensor.n_bytes for tensor in tensors), 0, -1
    for i, tensor in enumerate(tensors):
        share = (2 * before + tensor.n_bytes) * n_part // (2 * total)
        needed = n_part - (len(tensors) - i)  # else the tensors left are too few for the groups
        last = max(min(share, last + 1), last, needed)
        groups[last].append(tensor)
        before += tensor.n_bytes
    return groups


def _bounded_groups(
    split: _Split, alignment: int, tensors: Sequence[OutTensor], max_bytes: int
) -> list[list[OutTensor]]:
    """Fill one part after the other; the first may hold metadata alone."""
    # What is left for tensors in the first part, and in each other.
    room, other_room = (
        max_bytes - padded(Layout(split.metadata_of(i, 2), []).n_bytes, alignment) for i in (0, 1)
    )
    if room < 0:
        raise RequestError(
            f"parts of {max_bytes:,} bytes cannot hold the metadata, which is {-room:,} larger"
        )
    groups: list[list[OutTensor]] = [[]]
    for tensor in tensors:
        need = padded(n_bytes_info(tensor), alignment) + padded(tensor.n_bytes, alignment)
        if need > room:
            groups.append([])
            room = other_room
        if need > room:
            raise RequestError(
                f"parts of {max_bytes:,} bytes cannot hold tensor {quoted(tensor.name)} of "
                f"{tensor.n_bytes:,} bytes"
            )
        groups[-1].append(tensor)
        room -= need
    return groups
