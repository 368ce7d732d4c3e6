"""A reading position in a GGUF file that cannot leave it.

Every length is compared with the bytes that are left before it is used, in Python integers, which
do not wrap. It knows how GGUF writes numbers and strings, and nothing of what they mean.
"""

from collections.abc import Mapping
from struct import Struct
from types import MappingProxyType
from typing import Any

from junto.errors import FormatError
from junto.formats.mapped_file import MappedFile, quoted

U32, BOOL, STRING, ARRAY, U64 = 4, 7, 8, 9, 10

NUMBERS: Mapping[int, tuple[str, Struct]] = MappingProxyType(
    {
        0: ("u8", Struct("<B")),
        1: ("i8", Struct("<b")),
        2: ("u16", Struct("<H")),
        3: ("i16", Struct("<h")),
        U32: ("u32", Struct("<I")),
        5: ("i32", Struct("<i")),
        6: ("f32", Struct("<f")),
        BOOL: ("bool", Struct("<B")),
        U64: ("u64", Struct("<Q")),
        11: ("i64", Struct("<q")),
        12: ("f64", Struct("<d")),
    }
)
"""Value type number to the name and layout of the types of fixed size."""

MAX_ITEMS = 1 << 17
"""Metadata entries, tensors and arrays in arrays of one file; real files have under 100,000.

Each becomes a Python object of many times its size in the file, so the file's size is no bound.
"""

MAX_STRINGS = 1 << 22
"""Strings in arrays of one file, each stepped over by itself; real files have under 1,000,000."""


class Cursor:
    """Reads a mapped file from its start; `place` says in messages what is being read."""

    def __init__(self, file: MappedFile) -> None:
        """Stand at the first byte."""
        self.file = file
        self.pos = 0
        self.place = ""
        self._n_items = 0
        self._n_strings = 0

    @property
    def left(self) -> int:
        """The bytes that follow."""
        return self.file.n_bytes - self.pos

    def enter(self, what: str) -> None:
        """Name what starts here, for messages."""
        self.place = f"{what} at byte {self.pos}"

    def error(self, problem: str) -> FormatError:
        """Make the error that tells file, place and problem."""
        return FormatError(f"{self.file.name}: {self.place}: {problem}")

    def take(self, n_bytes: int, what: str) -> int:
        """Step over bytes and return where they start; FormatError if the file ends before."""
        if n_bytes > self.left:
            raise self.error(f"{what} exceeds the {self.left} bytes left")
        self.pos += n_bytes
        return self.pos - n_bytes

    def expect_items(self, n: int, min_bytes_each: int, what: str) -> None:
        """Check a count before its items are read; FormatError if too many, or too many to fit."""
        if n * min_bytes_each > self.left:
            raise self.error(f"{n} {what} exceed the {self.left} bytes left")
        self._n_items += n
        if self._n_items > MAX_ITEMS:
            raise self.error(f"{n} {what}, expected at most {MAX_ITEMS} items in a file")

    def expect_strings(self, n: int, min_bytes_each: int) -> None:
        """Check a count of strings as `expect_items` does."""
        if n * min_bytes_each > self.left:
            raise self.error(f"{n} strings exceed the {self.left} bytes left")
        self._n_strings += n
        if self._n_strings > MAX_STRINGS:
            raise self.error(f"{n} strings, expected at most {MAX_STRINGS} in a file")

    def number(self, type_id: int) -> Any:
        """Read a number of one of the types of NUMBERS; a bool as its byte."""
        name, layout = NUMBERS[type_id]
        start = self.take(layout.size, f"a {name} of {layout.size} bytes")
        return layout.unpack_from(self.file.buffer, start)[0]

    def string(self) -> bytes:
        """Read a string of any length the file can hold."""
        n = self.number(U64)
        start = self.take(n, f"string length {n}")
        return self.file.buffer[start : start + n]

    def name(self, n_bytes_max: int) -> str:
        """Read a string that names something: UTF-8, not empty, without NUL and not too long.

        A NUL would show readers in C a shorter name, so that two could be one to them.
        """
        n = self.number(U64)
        start = self.take(n, f"name length {n}")
        if not 0 < n <= n_bytes_max:
            raise self.error(f"name length {n}, expected 1 to {n_bytes_max} bytes")
        raw = self.file.buffer[start : start + n]
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"name {quoted(raw)} is not UTF-8") from None
        if "\0" in text:
            raise self.error(f"name {quoted(text)} holds a NUL byte")
        return text
