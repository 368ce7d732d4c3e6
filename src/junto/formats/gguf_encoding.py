"""Metadata of a GGUF as bytes: the type a value is given, and how it is laid out.

A Python int becomes u32, or i32 when negative, or 64 bits where it must; a float becomes f32. A
NumPy number or array keeps its own type, a `StoredValue` its bytes. The items of a list share one
type: i32 or more for whole numbers, as vocabularies have it. Keys are not interpreted.

Source: the GGUF specification of ggml (docs/gguf.md).
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from junto.errors import FormatError
from junto.formats.gguf_cursor import ARRAY, BOOL, NUMBERS, STRING, U32, U64
from junto.formats.gguf_metadata import MAX_BYTES_KEY, MAX_NESTING, StoredValue, StringArray, Value
from junto.formats.mapped_file import quoted

OutValue: TypeAlias = "Value | StoredValue | np.generic | Sequence[Any]"
"""What can be written as a value; a sequence holds strings, numbers, bools or sequences."""

I32, F32, I64 = 5, 6, 11
_TYPE_OF_DTYPE = {
    np.dtype(np.bool_ if type_id == BOOL else layout.format): type_id
    for type_id, (_, layout) in NUMBERS.items()
}
_BITS = {U32: (0, 32), I32: (31, 31), U64: (0, 64), I64: (63, 63)}
"""Whole-number type to the bits it has below and above zero."""


def encode_entry(key: str, value: OutValue) -> bytes:
    """Return the bytes of a key with its value; FormatError if GGUF cannot hold them."""
    place = f"metadata {quoted(key)}"
    name = encode_name(key, MAX_BYTES_KEY, place)
    try:
        type_id, data = encode_value(value)
    except FormatError as error:
        raise FormatError(f"{place}: {error}") from None
    return name + struct.pack("<I", type_id) + data


def encode_name(name: str, n_bytes_max: int, place: str) -> bytes:
    """Return the bytes of a name as the reader accepts them; FormatError if it would not."""
    raw = _encode_text(name, place)
    if not 0 < len(raw) <= n_bytes_max or b"\0" in raw:
        raise FormatError(f"{place}: a name has 1 to {n_bytes_max} bytes, none of them NUL")
    return _string(raw)


def encode_value(value: OutValue) -> tuple[int, bytes]:
    """Return the number of a value's type, and its bytes; FormatError if GGUF has none for it."""
    if isinstance(value, StoredValue):
        return value.type_id, value.data.tobytes()
    if isinstance(value, str):
        return STRING, _string(_encode_text(value, "the text"))
    if isinstance(value, bool | int | float) and not isinstance(value, np.generic):
        return _encode_number(value)
    if isinstance(value, np.generic):
        return _type_of(value.dtype), value.tobytes()
    return ARRAY, _array(value, nesting=1)


def _encode_number(value: bool | int | float) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return BOOL, bytes([value])
    if isinstance(value, float):
        return F32, _f32([value]).tobytes()
    type_id = _whole_type([value], (U32, I32, U64, I64))
    return type_id, NUMBERS[type_id][1].pack(value)


def _array(value: Any, nesting: int) -> bytes:
    """Return element type, count and elements."""
    if nesting > MAX_NESTING:
        raise FormatError(f"arrays inside arrays deeper than {MAX_NESTING}")
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise FormatError(f"an array of shape {value.shape}, expected one axis")
        return _header(_type_of(value.dtype), len(value)) + value.tobytes()
    if not isinstance(value, list | tuple | StringArray):
        raise FormatError(f"a {type(value).__name__} is no value of a GGUF")
    if not value:
        raise FormatError("an empty list tells no element type; give an empty NumPy array")
    type_id, encode = _elements(value, nesting)
    return _header(type_id, len(value)) + b"".join(map(encode, value))


def _elements(items: Sequence[Any], nesting: int) -> tuple[int, Callable[[Any], bytes]]:
    """Return the type that the items share, and what encodes one of them."""
    if isinstance(items, StringArray) or all(isinstance(item, str) for item in items):
        return STRING, lambda text: _string(_encode_text(text, "an item"))
    if all(isinstance(item, bool | np.bool_) for item in items):
        return BOOL, lambda flag: bytes([bool(flag)])
    if all(isinstance(item, int | np.integer) and not isinstance(item, bool) for item in items):
        type_id = _whole_type(items, (I32, U32, I64, U64))
        return type_id, lambda n: NUMBERS[type_id][1].pack(int(n))
    if all(isinstance(item, float | np.floating) for item in items):
        return F32, lambda number: _f32([number]).tobytes()
    if all(isinstance(item, list | tuple | np.ndarray | StringArray) for item in items):
        return ARRAY, lambda inner: _array(inner, nesting + 1)
    raise FormatError("the items of the list have no one type that GGUF knows")


def _whole_type(numbers: Sequence[Any], order: tuple[int, ...]) -> int:
    """Return the first type that holds every number."""
    low, high = int(min(numbers)), int(max(numbers))
    for type_id in order:
        below, above = _BITS[type_id]
        if (-(1 << below) if below else 0) <= low and high < 1 << above:
            return type_id
    raise FormatError(f"{low} to {high} fit no one type of 64 bits")


def _f32(numbers: Sequence[float]) -> "np.ndarray[Any, np.dtype[np.float32]]":
    with np.errstate(over="ignore"):
        stored = np.asarray(numbers, "<f4")
    if np.isinf(stored).any() and not np.isinf(np.asarray(numbers, np.float64)).any():
        raise FormatError(f"{numbers[0]} does not fit float32; give a numpy.float64")
    return stored


def _type_of(dtype: "np.dtype[Any]") -> int:
    type_id = _TYPE_OF_DTYPE.get(dtype.newbyteorder("<"))
    if type_id is None or dtype.byteorder == ">":
        raise FormatError(f"NumPy's {dtype} is no type of GGUF's")
    return type_id


def _header(type_id: int, n: int) -> bytes:
    return struct.pack("<IQ", type_id, n)


def _string(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def _encode_text(text: str, place: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError(f"{place}: character {error.start} is half of a surrogate pair") from None
