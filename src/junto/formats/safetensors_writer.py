"""Writes a checkpoint in safetensors: one file, or shards of a bounded size and their index.

All files appear together or none does. Sizes are known before the first byte, so tensors of any
size pass through in pieces. What names mean is not known; config.json is someone else's.

Within a file, tensors of wider numbers come first and the header is padded to 8 bytes, so that each
tensor lies at a multiple of its number's size, which other readers rely on.

Source: the safetensors format description (README of huggingface/safetensors).
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from junto.errors import DiskError, FormatError
from junto.formats.atomic_file import NewFile, Sink, write_files
from junto.formats.json_file import MAX_JSON_BYTES
from junto.formats.mapped_file import quoted
from junto.formats.out_tensor import Advance, OutTensor
from junto.formats.safetensors import INDEX, WHOLE
from junto.formats.safetensors_shard import DTYPES

__all__ = ["MAX_SHARD_BYTES", "OutTensor", "write_safetensors"]

MAX_SHARD_BYTES = 5 * 10**9
"""The usual bound of a shard."""


def write_safetensors(
    folder: str | Path,
    tensors: Sequence[OutTensor],
    metadata: Mapping[str, str],
    max_shard_bytes: int = MAX_SHARD_BYTES,
    advance: Advance | None = None,
) -> list[Path]:
    """Write tensors into a folder, in shards of at most `max_shard_bytes` of data.

    metadata   `__metadata__` of each file; transformers wants {"format": "pt"}
    advance    called with the bytes of tensor data just written; they sum to those of all tensors

    Returns the files. A tensor larger than a shard has one to itself. FormatError if safetensors
    cannot hold a tensor, before anything is written; DiskError if there is no room, or the folder
    holds weights already.
    """
    folder = Path(folder)
    _refuse_weights(folder)
    _check(tensors)
    shards = list(_shards(tensors, max_shard_bytes))
    names = _shard_names(len(shards))
    files = [
        _shard_file(folder / name, shard, metadata, advance)
        for name, shard in zip(names, shards, strict=True)
    ]
    if len(shards) > 1:
        files.append(_index_file(folder / INDEX, dict(zip(names, shards, strict=True))))
    write_files(files)
    return [file.path for file in files]


def _refuse_weights(folder: Path) -> None:
    found = sorted(path.name for path in folder.glob("model*.safetensors*"))
    if found:
        raise DiskError(f"{folder}: holds {found[0]} already; choose an empty folder")


def _check(tensors: Sequence[OutTensor]) -> None:
    names = set()
    for tensor in tensors:
        place = f"tensor {quoted(tensor.name)}"
        if tensor.name in names or tensor.name == "__metadata__":
            raise FormatError(f"{place} is given twice, or is a name that the format keeps")
        if tensor.type.name not in DTYPES:
            raise FormatError(f"{place}: type {tensor.type.name} is none of safetensors's")
        names.add(tensor.name)


def _shards(tensors: Sequence[OutTensor], max_bytes: int) -> Iterator[list[OutTensor]]:
    """Cut the tensors, in their order, into runs of at most `max_bytes`; always at least one."""
    shard: list[OutTensor] = []
    n_bytes = 0
    for tensor in tensors:
        if shard and n_bytes + tensor.n_bytes > max_bytes:
            yield shard
            shard, n_bytes = [], 0
        shard.append(tensor)
        n_bytes += tensor.n_bytes
    yield shard


def _shard_names(n: int) -> list[str]:
    if n == 1:
        return [WHOLE]
    return [f"model-{i + 1:05d}-of-{n:05d}.safetensors" for i in range(n)]


def _shard_file(
    path: Path, tensors: Sequence[OutTensor], metadata: Mapping[str, str], advance: Advance | None
) -> NewFile:
    ordered = sorted(tensors, key=lambda tensor: -tensor.type.n_bytes_per_block)
    header = _header(path, ordered, metadata)
    n_bytes = len(header) + sum(tensor.n_bytes for tensor in ordered)
    return NewFile(path, n_bytes, partial(_write_shard, path, header, ordered, advance))


def _header(path: Path, tensors: Sequence[OutTensor], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for tensor in tensors:
        begin, end = end, end + tensor.n_bytes
        entries[tensor.name] = {
            "dtype": tensor.type.name,
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    raw = json.dumps(entries, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    if len(raw) > MAX_JSON_BYTES:
        raise FormatError(f"{path.name}: a header of {len(raw)} bytes, at most {MAX_JSON_BYTES}")
    return struct.pack("<Q", len(raw)) + raw


def _write_shard(
    path: Path, header: bytes, tensors: Sequence[OutTensor], advance: Advance | None, sink: Sink
) -> None:
    sink.write(header)
    for tensor in tensors:
        try:
            tensor.write(sink, advance)
        except FormatError as error:
            raise FormatError(f"{path.name}: {error}") from None


def _index_file(path: Path, shards: Mapping[str, Sequence[OutTensor]]) -> NewFile:
    weight_map = {tensor.name: name for name, shard in shards.items() for tensor in shard}
    total = sum(tensor.n_bytes for shard in shards.values() for tensor in shard)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    raw = json.dumps(index, indent=2, sort_keys=True).encode() + b"\n"
    return NewFile(path, len(raw), lambda sink: sink.write(raw))
