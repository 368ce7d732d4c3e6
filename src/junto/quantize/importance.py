"""Reads importance matrices: how much each input channel of each matrix matters.

Both forms that llama.cpp's imatrix tool writes are read, told apart by their first bytes. They hold
sums of squared activations and how many there were; importance is the mean. Files are taken as
hostile: every count is checked against the bytes that are left, every value must be finite and not
negative.

    .dat   i32 n_entry | entries | i32 n_chunk | i32 length, name of the data set (both optional)
           entry = i32 length, name, i32 n_call, i32 n, n x f32 (mean x n_call)
    GGUF   general.type "imatrix"; for each matrix NAME.in_sum2 [n_expert, n] and NAME.counts
           [n_expert, 1]; imatrix.datasets, imatrix.chunk_count

Source: tools/imatrix and common/imatrix-loader of llama.cpp.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from junto.errors import FormatError
from junto.formats.gguf import GGUFFile, StringArray, read_gguf
from junto.formats.gguf_cursor import Cursor
from junto.formats.mapped_file import map_file, quoted
from junto.formats.tensor import F32, Tensor

_I32 = 5
_MIN_BYTES_ENTRY = 4 + 1 + 4 + 4 + 4
_MAX_BYTES_NAME = 1024
_SUMS, _COUNTS = ".in_sum2", ".counts"


@dataclass(frozen=True, slots=True)
class _Entry:
    """Sums of squares F32 [n_count * n], perhaps an unaligned view; and how many, [n_count]."""

    sums: F32
    counts: F32


@dataclass(frozen=True, slots=True, eq=False)
class ImportanceMatrix:
    """An importance matrix: entries by the names of their tensors.

    datasets   what it was computed on, as the file says
    n_chunk    chunks of text that were seen; 0 if the file does not say
    """

    source: str
    entries: Mapping[str, _Entry]
    datasets: tuple[str, ...]
    n_chunk: int

    def of(self, name: str, shape: tuple[int, ...]) -> F32 | None:
        """Return the importance of a tensor's input channels, or None if the file has none.

        shape    [n_row, n] or [n_expert, n_row, n]
        returns  F32 [n], or [n_expert, n] where each expert has its own; experts that were never
                 chosen weigh all channels alike

        FormatError if the file has another number of channels, or values that cannot be.
        """
        if name not in self.entries:
            return None
        entry = self.entries[name]
        n, n_expert = shape[-1], shape[0] if len(shape) > 2 else 1
        if entry.sums.size not in (n, n_expert * n):
            raise FormatError(
                f"{self.source}: {quoted(name)} has {entry.sums.size} importances, expected "
                f"{n_expert * n} for a tensor of shape {shape}"
            )
        sums = entry.sums.astype(np.float32).reshape(len(entry.counts), -1)
        if not (np.isfinite(sums) & (sums >= 0)).all():
            raise FormatError(
                f"{self.source}: {quoted(name)} has sums that are negative or not finite"
            )
        counts = entry.counts[:, None]
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.float32(1))
        return means.reshape(-1) if sums.size == n else means.reshape(n_expert, n)


def read_importance(path: str | Path) -> ImportanceMatrix:
    """Open an importance matrix of either form; FormatError if it is neither, or broken."""
    path = Path(path)
    file = map_file(path)
    if file.buffer[:4] == b"GGUF":
        return _from_gguf(read_gguf(path))
    return _from_dat(Cursor(file))


def _from_gguf(file: GGUFFile) -> ImportanceMatrix:
    source, kind = file.path.name, file.metadata.get("general.type")
    if kind != "imatrix":
        raise FormatError(
            f"{source}: metadata 'general.type' is {quoted(kind)}, expected 'imatrix'; "
            "this GGUF is no importance matrix"
        )
    entries = {
        name.removesuffix(_SUMS): _gguf_entry(file, name)
        for name in file.tensors
        if name.endswith(_SUMS)
    }
    if not entries:
        raise FormatError(f"{source}: no tensor NAME{_SUMS}, expected one for each matrix")
    datasets, n_chunk = (file.metadata.get(f"imatrix.{key}") for key in ("datasets", "chunk_count"))
    return ImportanceMatrix(
        source,
        MappingProxyType(entries),
        tuple(datasets) if isinstance(datasets, StringArray) else (),
        n_chunk if isinstance(n_chunk, int) else 0,
    )


def _gguf_entry(file: GGUFFile, sums_name: str) -> _Entry:
    source, counts_name = file.path.name, sums_name.removesuffix(_SUMS) + _COUNTS
    if counts_name not in file.tensors:
        raise FormatError(f"{source}: {quoted(sums_name)} has no {quoted(counts_name)}")
    sums, counts = (_floats(file.tensors[name]) for name in (sums_name, counts_name))
    if sums.size % counts.size:
        raise FormatError(
            f"{source}: {quoted(sums_name)} has {sums.size} sums, "
            f"expected a multiple of its {counts.size} counts"
        )
    return _Entry(sums, _checked_counts(counts, source, counts_name))


def _floats(tensor: Tensor) -> F32:
    if tensor.type.name != "F32":
        raise FormatError(
            f"{tensor.source}: tensor {quoted(tensor.name)} is {tensor.type.name}, expected F32"
        )
    return tensor.float32().reshape(-1)


def _checked_counts(counts: F32, source: str, name: str) -> F32:
    if not (np.isfinite(counts) & (counts >= 0)).all():
        raise FormatError(f"{source}: {quoted(name)} has counts that are negative or not finite")
    return counts


def _from_dat(cursor: Cursor) -> ImportanceMatrix:
    cursor.enter("header")
    n_entry = cursor.number(_I32)
    if n_entry < 1:
        raise cursor.error(f"{n_entry} entries, expected an importance matrix (.dat or GGUF)")
    cursor.expect_items(n_entry, _MIN_BYTES_ENTRY, "entries")
    entries: dict[str, _Entry] = {}
    for i in range(n_entry):
        cursor.enter(f"entry {i + 1} of {n_entry}")
        name = _read_name(cursor, 1)
        if name in entries:
            raise cursor.error(f"the name {quoted(name)} stands in the file twice")
        entries[name] = _read_entry(cursor)
    cursor.enter("end")
    n_chunk = cursor.number(_I32) if cursor.left else 0
    datasets = (_read_name(cursor, 0),) if cursor.left else ()
    return ImportanceMatrix(
        cursor.file.name,
        MappingProxyType(entries),
        tuple(name for name in datasets if name),
        max(n_chunk, 0),
    )


def _read_name(cursor: Cursor, n_bytes_min: int) -> str:
    n = cursor.number(_I32)
    if not n_bytes_min <= n <= _MAX_BYTES_NAME:
        raise cursor.error(f"name length {n}, expected {n_bytes_min} to {_MAX_BYTES_NAME} bytes")
    start = cursor.take(n, f"name length {n}")
    return cursor.file.buffer[start : start + n].decode("utf-8", "replace")


def _read_entry(cursor: Cursor) -> _Entry:
    n_call, n = cursor.number(_I32), cursor.number(_I32)
    if n < 1:
        raise cursor.error(f"{n} values, expected at least 1")
    start = cursor.take(4 * n, f"{n} values")
    sums = cursor.file.view(start, (4 * n,)).view("<f4")
    return _Entry(sums, np.array([max(n_call, 1)], np.float32))
