"""Reads one .safetensors file without copying its tensors.

    u64 n_header | n_header bytes of JSON | tensor data
    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}

Offsets count from the start of the tensor data. The tensors must fill the data exactly: no overlap,
no hole, nothing after the last. How shards make up a model is `safetensors`'s business.

Source: the safetensors format description (README of huggingface/safetensors).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from junto.errors import FormatError
from junto.formats.json_file import MAX_JSON_BYTES, parse_json_object
from junto.formats.mapped_file import MappedFile, map_file, quoted
from junto.formats.quant_types import TYPES, QuantType
from junto.formats.tensor import Tensor, stored_shape

DTYPES: Mapping[str, QuantType] = MappingProxyType(
    {name: type for name, type in TYPES.items() if type.n_per_block == 1}
)
"""The dtypes whose size is known; not all of them can be decoded."""

_N_BYTES_LENGTH = 8
_MAX_DIMS = 8
_MAX_COUNT = (1 << 63) - 1
_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}


class _Entry(NamedTuple):
    """A tensor of the header: bytes `begin` to `end` of the tensor data."""

    begin: int
    end: int
    name: str
    type: QuantType
    shape: tuple[int, ...]


def read_shard(path: Path) -> dict[str, Tensor]:
    """Map a file and return its tensors by name; FormatError at the first fault of its header."""
    file = map_file(path)
    header, data_start = _read_header(file)
    entries = [
        _entry(f"{file.name}: tensor {quoted(name)}", name, fields)
        for name, fields in header.items()
        if name != "__metadata__"
    ]
    _check_layout(file, data_start, entries)
    return {entry.name: _tensor(file, data_start, entry) for entry in entries}


def _read_header(file: MappedFile) -> tuple[dict[str, Any], int]:
    left = file.n_bytes - _N_BYTES_LENGTH
    if left < 0:
        raise FormatError(
            f"{file.name}: the file has {file.n_bytes} bytes, its header length alone takes "
            f"{_N_BYTES_LENGTH}"
        )
    (n_header,) = struct.unpack_from("<Q", file.buffer, 0)
    if n_header > left:
        raise FormatError(f"{file.name}: header length {n_header} exceeds the {left} bytes left")
    if n_header > MAX_JSON_BYTES:
        raise FormatError(
            f"{file.name}: header length {n_header}, expected at most {MAX_JSON_BYTES}"
        )
    data_start = _N_BYTES_LENGTH + n_header
    header = parse_json_object(file.buffer[_N_BYTES_LENGTH:data_start], f"{file.name}: header")
    _check_metadata(file, header.get("__metadata__", {}))
    return header, data_start


def _check_metadata(file: MappedFile, metadata: object) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FormatError(f"{file.name}: '__metadata__' in the header is not an object of strings")


def _entry(place: str, name: str, fields: object) -> _Entry:
    if not isinstance(fields, dict) or fields.keys() != _ENTRY_KEYS:
        raise FormatError(f"{place}: expected an object of dtype, shape and data_offsets")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise FormatError(f"{place}: dtype {quoted(dtype)}, expected one of {', '.join(DTYPES)}")
    if not _are_counts(shape) or len(shape) > _MAX_DIMS:
        raise FormatError(f"{place}: shape {quoted(shape)}, expected up to {_MAX_DIMS} counts")
    if not _are_counts(offsets) or len(offsets) != 2:
        raise FormatError(f"{place}: data_offsets {quoted(offsets)}, expected two counts")
    # An empty tensor has no bytes to check its other dimensions against.
    if math.prod(max(n, 1) for n in shape) > _MAX_COUNT // 8:
        raise FormatError(f"{place}: shape {quoted(shape)} is beyond any memory")
    begin, end = offsets
    n_bytes = math.prod(stored_shape(DTYPES[dtype], tuple(shape)))
    if end - begin != n_bytes:
        raise FormatError(
            f"{place}: data_offsets [{begin}, {end}] hold {end - begin} bytes, "
            f"expected {n_bytes} for {dtype} of shape {tuple(shape)}"
        )
    return _Entry(begin, end, name, DTYPES[dtype], tuple(shape))


def _are_counts(value: object) -> bool:
    """Tell whether this is a list of integers from 0; JSON's true and 1.0 are none."""
    return isinstance(value, list) and all(type(n) is int and 0 <= n <= _MAX_COUNT for n in value)


def _check_layout(file: MappedFile, data_start: int, entries: list[_Entry]) -> None:
    """Refuse tensors that do not follow each other from the first byte of data to the last."""
    end, before = 0, "the header"
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != end:
            fault = "overlaps" if entry.begin < end else "leaves a hole after"
            raise FormatError(
                f"{file.name}: tensor {quoted(entry.name)} {fault} {before}: its data starts at "
                f"byte {data_start + entry.begin} of the file, expected {data_start + end}"
            )
        end, before = entry.end, quoted(entry.name)
    if data_start + end != file.n_bytes:
        fault = "is cut short, fetch it again" if data_start + end > file.n_bytes else "has a tail"
        raise FormatError(
            f"{file.name}: the file {fault}: it has {file.n_bytes} bytes, its header describes "
            f"{data_start + end}"
        )


def _tensor(file: MappedFile, data_start: int, entry: _Entry) -> Tensor:
    read = partial(file.view, data_start + entry.begin, stored_shape(entry.type, entry.shape))
    return Tensor(entry.name, entry.shape, entry.type, file.name, read)
