"""Reads JSON that stands in or beside a model file, within bounds.

Python's parser lets the last of two equal keys win, takes NaN, and can run out of stack; here each
fault is a FormatError with the file's name. What the JSON means is not known here.
"""

import json
from pathlib import Path
from typing import Any

from junto.errors import FormatError
from junto.formats.mapped_file import map_file, quoted

MAX_JSON_BYTES = 16 << 20
"""Far above the largest real index (10 MB for 90,000 tensors)."""

MAX_JSON_ITEMS = 1 << 19
"""Far above the largest real header or index too. An item of two bytes becomes an object of a
hundred, so the size alone does not bound what a parse costs."""


def read_json_object(path: Path) -> dict[str, Any]:
    """Parse a file that holds one JSON object; FormatError if it is too big or broken."""
    file = map_file(path)
    if file.n_bytes > MAX_JSON_BYTES:
        raise FormatError(
            f"{file.name}: {file.n_bytes} bytes of JSON, expected at most {MAX_JSON_BYTES}"
        )
    return parse_json_object(file.buffer[:], file.name)


def parse_json_object(raw: bytes, place: str) -> dict[str, Any]:
    """Parse bytes as a JSON object without repeated keys; `place` starts each FormatError."""
    n_items = sum(map(raw.count, (b",", b"[", b"{")))
    if n_items > MAX_JSON_ITEMS:
        raise FormatError(f"{place}: JSON of {n_items} items, expected at most {MAX_JSON_ITEMS}")
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_object)
    except _RepeatedKeyError as error:
        raise FormatError(f"{place}: key {error} stands twice in one JSON object") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{place}: not UTF-8 at byte {error.start} of the JSON") from None
    except ValueError as error:
        raise FormatError(f"{place}: not JSON: {error}") from None
    except RecursionError:
        raise FormatError(f"{place}: JSON nested too deep") from None
    if not isinstance(value, dict):
        raise FormatError(f"{place}: JSON {type(value).__name__}, expected an object")
    return value


class _RepeatedKeyError(Exception):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKeyError(quoted(key))
            seen.add(key)
    return made
