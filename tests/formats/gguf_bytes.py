"""Writes GGUF byte by byte from the specification; the reader is not tested against itself."""

import struct

U8, U32, F32, BOOL, STRING, ARRAY = 0, 4, 6, 7, 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"} | {
    10: "<Q",
    11: "<q",
    12: "<d",
}


def u32(n: int) -> bytes:
    return struct.pack("<I", n)


def u64(n: int) -> bytes:
    return struct.pack("<Q", n)


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return u64(len(raw)) + raw


def scalar(type_id: int, value: float) -> bytes:
    return struct.pack(SCALARS[type_id], value)


def array(type_id: int, elements: list[bytes]) -> bytes:
    return u32(type_id) + u64(len(elements)) + b"".join(elements)


def kv(key: str | bytes, type_id: int, value: bytes) -> bytes:
    return string(key) + u32(type_id) + value


def tensor(name: str | bytes, dims: list[int], type_id: int, offset: int) -> bytes:
    """A tensor info; `dims` has the fastest axis first, as it stands in the file."""
    return string(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(type_id) + u64(offset)


def gguf(
    kvs: list[bytes], tensors: list[bytes], data: bytes = b"", version: int = 3, alignment: int = 32
) -> bytes:
    """A whole file, its data section padded to `alignment`."""
    start = b"GGUF" + u32(version) + u64(len(tensors)) + u64(len(kvs))
    header = start + b"".join(kvs) + b"".join(tensors)
    return header + bytes(-len(header) % alignment) + data
