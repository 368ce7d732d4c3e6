"""Writes GGUF files, version 3, little-endian: the header at once, the tensors piece by piece.

Every size is known before the first byte, so that the disk is asked for room beforehand and tensors
of any size pass through in pieces. The same metadata and tensors give the same bytes. What
`gguf` would refuse to read is refused here. What keys and names mean is not known.

    GGUF | u32 version | u64 n_tensors | u64 n_kv | metadata | tensor infos | padding | tensor data

Each tensor starts at a multiple of the alignment (`general.alignment`, else 32), and zeros fill the
space between, and after the last.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from junto.errors import FormatError
from junto.formats.atomic_file import NewFile, Sink, write_files
from junto.formats.gguf_cursor import MAX_ITEMS, U32
from junto.formats.gguf_encoding import OutValue, encode_entry, encode_name, encode_value
from junto.formats.gguf_file import (
    ALIGNMENTS,
    DEFAULT_ALIGNMENT,
    MAX_BYTES_TENSOR_NAME,
    MAX_DIMS,
)
from junto.formats.mapped_file import quoted
from junto.formats.out_tensor import Advance, OutTensor
from junto.formats.quant_types import NOT_IN_GGUF

__all__ = ["OutTensor", "OutValue", "write_gguf"]

_START = b"GGUF" + struct.pack("<I", 3)
_N_BYTES_START = len(_START) + 2 * 8


def write_gguf(
    path: str | Path,
    metadata: Mapping[str, OutValue],
    tensors: Sequence[OutTensor],
    advance: Advance | None = None,
) -> None:
    """Write a GGUF file that appears whole or not at all, in the order of keys and tensors given.

    metadata   key -> value; `GGUFFile.stored` copies a file's, see `gguf_encoding` for new ones
    advance    called with the bytes of tensor data just written; they sum to those of all tensors

    FormatError if GGUF cannot hold a key, a value or a tensor, before anything is written;
    DiskError if there is no room. A file of that name is replaced.
    """
    path = Path(path)
    try:
        layout = Layout(metadata, tensors)
    except FormatError as error:
        raise FormatError(f"{path.name}: {error}") from None
    write_files([layout.file(path, advance)])


@dataclass(frozen=True, slots=True)
class _Placed:
    tensor: OutTensor
    offset: int
    n_bytes: int


class Layout:
    """A GGUF file to be: its header made, the place of each tensor known.

    header    all bytes before the tensor data
    n_bytes   size of the whole file
    """

    def __init__(self, metadata: Mapping[str, OutValue], tensors: Sequence[OutTensor]) -> None:
        if max(len(metadata), len(tensors)) > MAX_ITEMS:
            raise FormatError(f"more than {MAX_ITEMS} keys or tensors")
        self.alignment = _alignment(metadata)
        entries = b"".join(encode_entry(key, value) for key, value in metadata.items())
        self._placed, end = self._place(tensors)
        infos = b"".join(_info(placed) for placed in self._placed)
        counts = struct.pack("<QQ", len(tensors), len(metadata))
        header = _START + counts + entries + infos
        self.header = header + bytes(-len(header) % self.alignment if tensors else 0)
        self.n_bytes = len(self.header) + end

    def file(self, path: Path, advance: Advance | None) -> NewFile:
        """Say how to write this to a path."""
        return NewFile(path, self.n_bytes, partial(self._write, path=path, advance=advance))

    def _place(self, tensors: Sequence[OutTensor]) -> tuple[list[_Placed], int]:
        placed, names, end = [], set[str](), 0
        for tensor in tensors:
            if tensor.name in names:
                raise FormatError(f"tensor {quoted(tensor.name)} is given twice")
            names.add(tensor.name)
            placed.append(_Placed(tensor, end, _checked_size(tensor)))
            end += padded(placed[-1].n_bytes, self.alignment)
        return placed, end

    def _write(self, sink: Sink, path: Path, advance: Advance | None) -> None:
        sink.write(self.header)
        for placed in self._placed:
            try:
                placed.tensor.write(sink, advance)
            except FormatError as error:
                raise FormatError(f"{path.name}: {error}") from None
            sink.write(bytes(-placed.n_bytes % self.alignment))


def _alignment(metadata: Mapping[str, OutValue]) -> int:
    """Return `general.alignment`, or what its absence means; FormatError if it cannot be one."""
    key = "general.alignment"
    if key not in metadata:
        return DEFAULT_ALIGNMENT
    type_id, data = encode_value(metadata[key])
    value = int.from_bytes(data[:8], "little")
    if type_id != U32 or value not in ALIGNMENTS:
        raise FormatError(
            f"metadata {key!r} is {quoted(metadata[key])}, expected a power of two (u32) "
            f"from {ALIGNMENTS[0]} to {ALIGNMENTS[-1]}"
        )
    return value


def padded(n_bytes: int, alignment: int) -> int:
    """Return the size with the zeros that follow."""
    return -(-n_bytes // alignment) * alignment


def _checked_size(tensor: OutTensor) -> int:
    """Return the bytes of a tensor; FormatError if GGUF cannot describe it."""
    place = f"tensor {quoted(tensor.name)}"
    if tensor.type.ggml_id == NOT_IN_GGUF:
        raise FormatError(f"{place}: type {tensor.type.name} is not one of GGUF's")
    if len(tensor.shape) > MAX_DIMS or any(n < 1 for n in tensor.shape):
        raise FormatError(
            f"{place}: shape {tensor.shape}, expected at most {MAX_DIMS} axes of at least 1"
        )
    try:
        return tensor.n_bytes
    except FormatError as error:
        raise FormatError(f"{place}: {error}") from None


def n_bytes_info(tensor: OutTensor) -> int:
    """Return the bytes that a tensor takes in the header."""
    return len(_info(_Placed(tensor, 0, 0)))


def _info(placed: _Placed) -> bytes:
    tensor = placed.tensor
    place = f"tensor {quoted(tensor.name)}"
    dims = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *reversed(tensor.shape))
    name = encode_name(tensor.name, MAX_BYTES_TENSOR_NAME, place)
    return name + dims + struct.pack("<IQ", tensor.type.ggml_id, placed.offset)
