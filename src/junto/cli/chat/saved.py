"""Chats in files: JSON with the messages as OpenAI's chat API has them, and the settings.

A file is input like any other: whatever is wrong in it is one line, and nothing is half read.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from junto.cli.chat.settings import Settings
from junto.errors import DiskError, FormatError
from junto.formats.atomic_file import NewFile, write_files
from junto.formats.json_file import read_json_object

VERSION = 1
ROLES = ("system", "user", "assistant")
TEXTS = ("content", "reasoning_content")


@dataclass(frozen=True, slots=True)
class Saved:
    """What a file holds.

    model      name of the file that answered
    messages   role, content; an assistant's may have `reasoning_content`, and `interrupted` where
               Ctrl-C ended it
    """

    model: str
    messages: list[dict[str, Any]]
    settings: Settings


def write_chat(path: Path, saved: Saved) -> None:
    """Write a chat, over an older one too; DiskError where the file is none, or the disk fails."""
    if path.exists() and not _is_chat(path):
        raise DiskError(f"{path}: exists and is no saved chat; choose another name")
    whole = {
        "junto_chat": VERSION,
        "model": saved.model,
        "settings": saved.settings.as_json(),
        "messages": saved.messages,
    }
    data = (json.dumps(whole, ensure_ascii=False, indent=1) + "\n").encode()
    write_files([NewFile(path, len(data), lambda sink: sink.write(data))])


def _is_chat(path: Path) -> bool:
    try:
        return "junto_chat" in read_json_object(path)
    except FormatError:
        return False


def read_chat(path: Path) -> Saved:
    """The chat that a file holds; FormatError in one line where it holds none."""
    whole = read_json_object(path)
    version = whole.get("junto_chat")
    if version != VERSION:
        found = "no 'junto_chat'" if version is None else f"'junto_chat' {version!r:.20}"
        raise FormatError(f"{path}: {found}, expected {VERSION}; /save writes such files")
    messages, settings, model = (whole.get(key) for key in ("messages", "settings", "model"))
    if not isinstance(messages, list):
        raise FormatError(f"{path}: 'messages' is no list")
    for n, message in enumerate(messages):
        _check(message, n, f"{path}: message {n}")
    if not isinstance(settings, dict):
        raise FormatError(f"{path}: 'settings' is no object")
    return Saved(str(model), messages, Settings.from_json(settings, str(path)))


def _check(message: Any, n: int, place: str) -> None:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise FormatError(f"{place}: no role, or one that is not of: {', '.join(ROLES)}")
    if message["role"] == "system" and n > 0:
        raise FormatError(f"{place}: a system message, expected only as the first")
    if unknown := message.keys() - {"role", "interrupted", *TEXTS}:
        raise FormatError(f"{place}: unknown key {min(unknown)!r:.40}")
    if "content" not in message:
        raise FormatError(f"{place}: no content")
    for key in TEXTS:
        if not _is_text(message.get(key, "")):
            raise FormatError(f"{place}: {key} is no text")
    if not isinstance(message.get("interrupted", False), bool):
        raise FormatError(f"{place}: 'interrupted' is neither true nor false")


def _is_text(value: Any) -> bool:
    """Whether it can be written as UTF-8: JSON can spell halves of characters."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)
