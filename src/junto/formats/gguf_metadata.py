"""The metadata of a GGUF file: keys and typed values.

Numbers become Python numbers, arrays of numbers become views of the file, and strings in arrays, of
which a vocabulary has half a million, are decoded only when asked for. What a key means is not
known here. Source: the GGUF specification of ggml (docs/gguf.md).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from junto.formats.gguf_cursor import ARRAY, BOOL, NUMBERS, STRING, U32, U64, Cursor
from junto.formats.mapped_file import MappedFile, quoted
from junto.formats.quant_types import U8

Value: TypeAlias = "int | float | bool | str | npt.NDArray[Any] | StringArray | list[Value]"
"""A metadata value: an array of numbers is an ndarray, an array of arrays a list."""

_MIN_BYTES_KV = 8 + 1 + 4 + 1
_MIN_BYTES_ARRAY = 4 + 8
_MIN_BYTES_STRING = 8
MAX_BYTES_KEY = 65535
MAX_NESTING = 8


class StringArray(Sequence[str]):
    """An array of strings whose lengths were checked and whose text is decoded when asked for.

    Bytes that are not UTF-8 show as U+FFFD: writers store file paths and the like as they come.
    """

    def __init__(self, file: MappedFile, starts: array[int]) -> None:
        """Take where in the file the length of each string stands."""
        self._file = file
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._decode(start) for start in self._starts[index]]
        return self._decode(self._starts[index])

    def __iter__(self) -> Iterator[str]:
        return iter(self._decode_all())

    def __repr__(self) -> str:
        return f"<StringArray of {len(self)}>"

    def _decode(self, start: int) -> str:
        buffer = self._file.buffer
        (n,) = NUMBERS[U64][1].unpack_from(buffer, start)
        return buffer[start + 8 : start + 8 + n].decode("utf-8", "replace")

    def _decode_all(self) -> Iterable[str]:
        """All texts decoded at once, with a newline for each length; one by one if any holds one.

        A newline ends what is not UTF-8 as the end of the string does, so U+FFFD stands alike.
        """
        if not self._starts:
            return ()
        first, last = self._starts[0], self._starts[-1]
        (n_last,) = NUMBERS[U64][1].unpack_from(self._file.buffer, last)
        region = np.frombuffer(self._file.buffer[first : last + 8 + n_last], np.uint8).copy()
        starts = np.frombuffer(self._starts, np.uint64).astype(np.int64) - first
        is_text = np.ones(len(region), np.bool_)
        for i in range(1, 8):
            is_text[starts + i] = False
        region[starts] = ord("\n")
        texts = region[is_text].tobytes().decode("utf-8", "replace").split("\n")
        return texts[1:] if len(texts) == len(self) + 1 else map(self._decode, self._starts)


@dataclass(frozen=True, slots=True, eq=False)
class StoredValue:
    """A metadata value as its file holds it: the number of its type, and its bytes.

    A writer that copies it keeps what `Value` does not tell: the width of a number, and bytes that
    are not UTF-8.
    """

    type_id: int
    data: U8


def read_metadata(cursor: Cursor, n_kv: int) -> tuple[dict[str, Value], dict[str, StoredValue]]:
    """Read `n_kv` keys with their values; return the values, and each as it is stored.

    FormatError at a key that is repeated or no name, at an unknown type, at a bool that is neither
    0 nor 1, and at any length that exceeds the file.
    """
    cursor.expect_items(n_kv, _MIN_BYTES_KV, "metadata entries")
    values: dict[str, Value] = {}
    stored: dict[str, StoredValue] = {}
    for i in range(n_kv):
        cursor.enter(f"metadata entry {i + 1} of {n_kv}")
        start = cursor.pos
        key = cursor.name(MAX_BYTES_KEY)
        cursor.place = f"metadata {quoted(key)} at byte {start}"
        if key in values:
            raise cursor.error("the key stands in the file twice")
        type_id = cursor.number(U32)
        value_start = cursor.pos
        values[key] = _read_value(cursor, type_id, nesting=0)
        n_bytes = cursor.pos - value_start
        stored[key] = StoredValue(type_id, cursor.file.view(value_start, (n_bytes,)))
    return values, stored


def _read_value(cursor: Cursor, type_id: int, nesting: int) -> Value:
    if type_id == STRING:
        return cursor.string().decode("utf-8", "replace")
    if type_id == ARRAY:
        return _read_array(cursor, nesting + 1)
    if type_id == BOOL:
        return bool(_read_numbers(cursor, BOOL, 1)[0])
    if type_id in NUMBERS:
        number: int | float = cursor.number(type_id)
        return number
    raise cursor.error(f"value type {type_id}, expected one of 0 to 12")


def _read_array(cursor: Cursor, nesting: int) -> Value:
    if nesting > MAX_NESTING:
        raise cursor.error(f"arrays inside arrays deeper than {MAX_NESTING}")
    type_id, n = cursor.number(U32), cursor.number(U64)
    if type_id in NUMBERS:
        return _read_numbers(cursor, type_id, n)
    if type_id == STRING:
        return _read_strings(cursor, n)
    if type_id == ARRAY:
        cursor.expect_items(n, _MIN_BYTES_ARRAY, "arrays")
        return [_read_array(cursor, nesting + 1) for _ in range(n)]
    raise cursor.error(f"array of type {type_id}, expected one of 0 to 12")


def _read_numbers(cursor: Cursor, type_id: int, n: int) -> npt.NDArray[Any]:
    name, layout = NUMBERS[type_id]
    start = cursor.take(n * layout.size, f"{n} {name} in {n * layout.size} bytes")
    numbers = cursor.file.view(start, (n * layout.size,)).view(layout.format)
    if type_id != BOOL:
        return numbers
    if n and numbers.max() > 1:
        raise cursor.error(f"a bool is {numbers.max()}, expected 0 or 1")
    return numbers.view(np.bool_)


def _read_strings(cursor: Cursor, n: int) -> StringArray:
    """Step from length to length: the only loop whose speed a user can feel."""
    cursor.expect_strings(n, _MIN_BYTES_STRING)
    length_at = NUMBERS[U64][1].unpack_from
    buffer, n_bytes = cursor.file.buffer, cursor.file.n_bytes
    starts = array("Q")
    pos = cursor.pos
    for i in range(n):
        if pos > n_bytes - 8:
            raise cursor.error(f"string {i} of {n} would start at byte {pos} of {n_bytes}")
        starts.append(pos)
        pos += 8 + length_at(buffer, pos)[0]
    if pos > n_bytes:
        raise cursor.error(f"the last of {n} strings would end at byte {pos} of {n_bytes}")
    cursor.pos = pos
    return StringArray(cursor.file, starts)
