"""Changes of a GGUF's metadata that someone asks for key by key.

A value is read as true, false, a whole number, a number or a text, in this order; where the key
exists already, the new value must be of the same kind. Lists and what says how the file is laid out
are not for setting.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from junto.errors import RequestError
from junto.formats.gguf_cursor import BOOL, NUMBERS, STRING
from junto.formats.gguf_encoding import OutValue
from junto.formats.gguf_metadata import StoredValue

_LAYOUT = ("general.alignment", "general.architecture", "general.file_type", "split.")
_MAX_TEXT_BYTES = 1 << 20


def edited(
    metadata: Mapping[str, OutValue], edits: Sequence[tuple[str, str]]
) -> dict[str, OutValue]:
    """Metadata with (key, value as text) set, the last one of a key; `@name` is a file's content.

    RequestError where a key is not for setting, or the value of another kind than what is there.
    """
    result = dict(metadata)
    for key, text in edits:
        if key.startswith(_LAYOUT):
            raise RequestError(f"--set {key}: says how the file is laid out; it cannot be set")
        result[key] = _of_kind(key, _content(key, text), metadata.get(key))
    return result


def _content(key: str, text: str) -> str:
    if not text.startswith("@"):
        return text
    path = Path(text[1:])
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_TEXT_BYTES + 1)
        if len(raw) > _MAX_TEXT_BYTES:
            raise RequestError(f"--set {key}: {path} has more than {_MAX_TEXT_BYTES:,} bytes")
        return raw.decode()
    except OSError as error:
        raise RequestError(f"--set {key}: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"--set {key}: {path} is not UTF-8 at byte {error.start:,}") from error


def _of_kind(key: str, text: str, now: "OutValue | None") -> OutValue:
    """The text as a value; of the kind of what is there, if anything is."""
    value = _guessed(text)
    kind = type(value) if now is None else _kind(now)
    if kind is type(value):
        return value
    if kind is str:
        return text
    if kind is float and type(value) is int:
        return float(value)
    if kind is list:
        raise RequestError(f"--set {key}: is a list in the file; only single values can be set")
    raise RequestError(f"--set {key}: {text!r} is no {_NAMES[kind]}, which the file has there")


_NAMES: dict[type, str] = {bool: "true or false", int: "whole number", float: "number"}


def _kind(value: OutValue) -> type:
    """bool, int, float, str, or list for all that has parts."""
    if isinstance(value, StoredValue):
        if value.type_id == STRING:
            return str
        if value.type_id not in NUMBERS:
            return list
        return bool if value.type_id == BOOL else _number(NUMBERS[value.type_id][0])
    item = value.item() if isinstance(value, np.generic) else value
    return type(item) if isinstance(item, bool | int | float | str) else list


def _number(type_name: str) -> type:
    return float if type_name.startswith("f") else int


def _guessed(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
