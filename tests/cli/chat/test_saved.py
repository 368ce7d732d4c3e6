"""Chats in files: what is written comes back, and broken files are one clear line."""

import json
from pathlib import Path
from typing import Any

import pytest

from junto.cli.chat.saved import Saved, read_chat, write_chat
from junto.cli.chat.settings import Settings
from junto.errors import DiskError, FormatError, JuntoError

SAVED = Saved(
    "m.gguf",
    [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "é\n?"},
        {"role": "assistant", "content": "I", "reasoning_content": "hm", "interrupted": True},
    ],
    Settings(effort="low", seed=3, temperature=1, stop=("a", "b")),
)


def test_a_chat_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    write_chat(path, SAVED)
    assert read_chat(path) == SAVED
    write_chat(path, SAVED)
    assert [file.name for file in tmp_path.iterdir()] == ["chat.json"]


def test_a_file_that_is_no_chat_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for text in ('{"a": 1}', "no JSON"):
        path.write_text(text)
        with pytest.raises(DiskError, match=r"config\.json: exists and is no saved chat"):
            write_chat(path, SAVED)
        assert path.read_text() == text


def chat_with(**changes: Any) -> dict[str, Any]:
    good = {"junto_chat": 1, "model": "m", "settings": {}, "messages": []}
    return {key: value for key, value in (good | changes).items() if value is not ...}


USER = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("whole", "text"),
    [
        (chat_with(junto_chat=...), "no 'junto_chat', expected 1"),
        (chat_with(junto_chat=2), "'junto_chat' 2, expected 1"),
        (chat_with(messages=...), "'messages' is no list"),
        (chat_with(messages={}), "'messages' is no list"),
        (chat_with(messages=[USER, 3]), "message 1: no role"),
        (chat_with(messages=[{"role": "tool", "content": "x"}]), "not of: system, user, assistant"),
        (chat_with(messages=[{"role": ["user"], "content": "x"}]), "message 0: no role"),
        (chat_with(messages=[{"role": "user"}]), "message 0: no content"),
        (chat_with(messages=[{"role": "user", "content": ["x"]}]), "content is no text"),
        (chat_with(messages=[{"role": "user", "content": "\ud800"}]), "content is no text"),
        (chat_with(messages=[USER | {"tool_calls": []}]), "unknown key 'tool_calls'"),
        (chat_with(messages=[USER | {"interrupted": 1}]), "'interrupted' is neither"),
        (chat_with(messages=[USER, USER | {"role": "system"}]), "message 1: a system message"),
        (chat_with(settings=[]), "'settings' is no object"),
        (chat_with(settings={"top_q": 1}), "unknown setting 'top_q'"),
        (chat_with(settings={"top_k": 1.5}), "setting 'top_k' is 1.5"),
        (chat_with(settings={"top_k": True}), "setting 'top_k' is True"),
        (chat_with(settings={"effort": "huge"}), "setting 'effort' is 'huge'"),
        (chat_with(settings={"effort": []}), r"setting 'effort' is \[\]"),
        (chat_with(settings={"stop": "abc"}), "setting 'stop' is 'abc'"),
        (chat_with(settings={"preserve_reasoning": None}), "'preserve_reasoning' is None"),
    ],
)
def test_broken_chats_are_one_line(whole: dict[str, Any], text: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(whole))
    with pytest.raises(FormatError, match=text) as caught:
        read_chat(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"junto_chat"', b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_one_line(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(data)
    with pytest.raises(JuntoError, match=r"chat\.json"):
        read_chat(path)
    with pytest.raises(JuntoError, match=r"none\.json"):
        read_chat(tmp_path / "none.json")
