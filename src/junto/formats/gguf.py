"""Reads GGUF files, versions 2 and 3, without copying their tensors.

The file is mapped; a tensor's bytes are touched when its data is asked for. A file is taken as
hostile: any fault is a FormatError that names file, place, expected and found, and costs no more
than the bytes the file really has. What metadata and tensor names mean is left to the models.

    GGUF | u32 version | u64 n_tensors | u64 n_kv | metadata | tensor infos | padding | tensor data
    tensor info = string name, u32 n_dims, n_dims x u64 (fastest axis first), u32 type, u64 offset

Stricter than the specification: names are not empty and hold no NUL, dimensions are at least 1.
Looser: tensors may stand in any order, with gaps between them and bytes after the last.

Source: the GGUF specification of ggml (docs/gguf.md).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from junto.errors import FormatError
from junto.formats.gguf_cursor import U32, U64, Cursor
from junto.formats.gguf_file import (
    ALIGNMENTS,
    DEFAULT_ALIGNMENT,
    MAX_BYTES_TENSOR_NAME,
    MAX_DIMS,
    GGUFFile,
)
from junto.formats.gguf_metadata import StoredValue, StringArray, Value, read_metadata
from junto.formats.gguf_split import joined
from junto.formats.mapped_file import MappedFile, map_file, quoted
from junto.formats.quant_types import QuantType, type_of_id
from junto.formats.tensor import Tensor, stored_shape

__all__ = ["GGUFFile", "StringArray", "Value", "read_gguf"]

_N_BYTES_START = 4 + 4 + 8 + 8
_MIN_BYTES_TENSOR = 8 + 1 + 4 + 4 + 8


@dataclass(frozen=True, slots=True)
class _TensorInfo:
    """What the header says of a tensor; `offset` counts from the start of the tensor data."""

    name: str
    shape: tuple[int, ...]
    type: QuantType
    offset: int
    n_bytes: int


def read_gguf(path: str | Path) -> GGUFFile:
    """Map a GGUF file and parse its header; of a split model, all parts, whichever is named.

    FormatError if any of it is not as it must be, or parts do not belong together.
    """
    return joined(read_part(Path(path)), read_part)


def survey_gguf(path: str | Path) -> tuple[GGUFFile, tuple[str, ...]]:
    """As `read_gguf`, for looking at damaged files: also what is wrong, beyond the header.

    Of a file that is cut short, or overlaps, all tensors are listed, and reading one that is not
    there fails. Of a split model whose parts do not come together the one that was named is given.
    FormatError if the header itself cannot be read.
    """
    faults: list[str] = []
    file = read_part(Path(path), faults)
    try:
        return joined(file, read_part), tuple(faults)
    except FormatError as error:
        return file, (*faults, str(error))


def read_part(path: Path, faults: list[str] | None = None) -> GGUFFile:
    """Map one file and parse its header, whether it is whole or a part of a split model.

    faults   takes what is wrong with where tensors lie, instead of a FormatError
    """
    file = map_file(path)
    cursor = Cursor(file)
    version, n_tensor, n_kv = _read_start(cursor)
    metadata, stored = read_metadata(cursor, n_kv)
    alignment = _alignment(file, metadata, stored)
    infos = _read_tensor_infos(cursor, n_tensor, alignment, metadata.get("general.architecture"))
    data_start = -(-cursor.pos // alignment) * alignment
    try:
        _check_layout(file, data_start, infos)
    except FormatError as error:
        if faults is None:
            raise
        faults.append(str(error))
    tensors = {name: _tensor(file, data_start, info) for name, info in infos.items()}
    return GGUFFile(
        path,
        version,
        MappingProxyType(metadata),
        MappingProxyType(tensors),
        MappingProxyType(stored),
        (path,),
    )


def _read_start(cursor: Cursor) -> tuple[int, int, int]:
    cursor.enter("header")
    if cursor.left < _N_BYTES_START:
        raise cursor.error(f"the file has {cursor.left} bytes, a GGUF header has {_N_BYTES_START}")
    magic = cursor.file.buffer[cursor.take(4, "magic") : 4]
    if magic != b"GGUF":
        raise cursor.error(f"not a GGUF file: it starts with {magic!r}, expected b'GGUF'")
    version, n_tensor, n_kv = cursor.number(U32), cursor.number(U64), cursor.number(U64)
    if version not in (2, 3):
        big_endian = " (a big-endian file)" if version in (2 << 24, 3 << 24) else ""
        raise cursor.error(f"GGUF version {version}{big_endian}, expected 2 or 3, little-endian")
    return version, n_tensor, n_kv


def _alignment(file: MappedFile, metadata: dict[str, Value], stored: dict[str, StoredValue]) -> int:
    key = "general.alignment"
    if key not in metadata:
        return DEFAULT_ALIGNMENT
    if stored[key].type_id != U32:
        raise FormatError(
            f"{file.name}: metadata '{key}' has value type {stored[key].type_id}, "
            f"expected {U32} (u32)"
        )
    value = metadata[key]
    assert isinstance(value, int), "a u32 is read as an int"
    if value not in ALIGNMENTS:
        raise FormatError(
            f"{file.name}: metadata '{key}' is {value}, expected a power of two "
            f"from {ALIGNMENTS[0]} to {ALIGNMENTS[-1]}"
        )
    return value


def _read_tensor_infos(
    cursor: Cursor, n_tensor: int, alignment: int, architecture: object
) -> dict[str, _TensorInfo]:
    cursor.enter("tensor infos")
    cursor.expect_items(n_tensor, _MIN_BYTES_TENSOR, "tensors")
    infos: dict[str, _TensorInfo] = {}
    for i in range(n_tensor):
        cursor.enter(f"tensor info {i + 1} of {n_tensor}")
        start = cursor.pos
        name = cursor.name(MAX_BYTES_TENSOR_NAME)
        cursor.place = f"tensor {quoted(name)} at byte {start}"
        if name in infos:
            raise cursor.error("the name stands in the file twice")
        infos[name] = _read_tensor_info(cursor, name, alignment, architecture)
    return infos


def _read_tensor_info(
    cursor: Cursor, name: str, alignment: int, architecture: object
) -> _TensorInfo:
    n_dim = cursor.number(U32)
    if n_dim > MAX_DIMS:
        raise cursor.error(f"{n_dim} dimensions, expected at most {MAX_DIMS}")
    shape = tuple(reversed([cursor.number(U64) for _ in range(n_dim)]))
    type_id, offset = cursor.number(U32), cursor.number(U64)
    if 0 in shape:
        raise cursor.error(f"shape {shape}, expected dimensions of at least 1")
    type = type_of_id(type_id, architecture)
    if type is None:
        raise cursor.error(f"tensor type {type_id} is unknown, or was removed from the format")
    if offset % alignment:
        raise cursor.error(f"offset {offset} is not a multiple of the alignment {alignment}")
    try:
        n_bytes = math.prod(stored_shape(type, shape))
    except FormatError as error:
        raise cursor.error(str(error)) from None
    return _TensorInfo(name, shape, type, offset, n_bytes)


def _check_layout(file: MappedFile, data_start: int, infos: Mapping[str, _TensorInfo]) -> None:
    """Refuse tensors that end beyond the file, or share bytes."""
    in_order = sorted(infos.values(), key=lambda info: info.offset)
    beyond = [t for t in in_order if data_start + t.offset + t.n_bytes > file.n_bytes]
    if beyond:
        end = data_start + max(t.offset + t.n_bytes for t in beyond)
        raise FormatError(
            f"{file.name}: tensor data is missing: {len(beyond)} of {len(in_order)} tensors, first "
            f"{quoted(beyond[0].name)} of shape {beyond[0].shape}, end beyond the file, which has "
            f"{file.n_bytes} bytes and needs {end}; if it was cut short, fetch it again"
        )
    for a, b in pairwise(in_order):
        if a.offset + a.n_bytes > b.offset:
            raise FormatError(
                f"{file.name}: tensors {quoted(a.name)} and {quoted(b.name)} overlap: one ends at "
                f"byte {data_start + a.offset + a.n_bytes}, the other starts at byte "
                f"{data_start + b.offset}"
            )


def _tensor(file: MappedFile, data_start: int, info: _TensorInfo) -> Tensor:
    read = partial(file.view, data_start + info.offset, stored_shape(info.type, info.shape))
    return Tensor(info.name, info.shape, info.type, file.name, read)
