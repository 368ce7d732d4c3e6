"""Writes safetensors byte by byte from the format description, sound and broken."""

import json
import struct
from typing import Any

Header = dict[str, Any]


def entry(dtype: str, shape: list[int], begin: int, end: int) -> Header:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def file_bytes(
    header: Header | str | bytes, data: bytes = b"", n_header: int | None = None
) -> bytes:
    """A whole file; `n_header` is the length it claims for its header, by default the true one."""
    text = json.dumps(header) if isinstance(header, dict) else header
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw) if n_header is None else n_header) + raw + data
