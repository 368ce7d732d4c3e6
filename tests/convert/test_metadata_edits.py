"""Metadata set by whoever converts."""

from pathlib import Path

import numpy as np
import pytest

from junto.convert import Wishes, convert
from junto.convert.metadata_edits import edited
from junto.errors import RequestError
from junto.formats.gguf import read_gguf
from junto.formats.gguf_encoding import OutValue
from tests.tiny.models import TINY

MODEL = TINY["llama_tied"]


def converted(folder: Path, *edits: tuple[str, str]) -> Path:
    source = MODEL.write_gguf(folder / "source.gguf")
    convert(source, folder / "target.gguf", Wishes(metadata=edits))
    return folder / "target.gguf"


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("-7", -7), ("0.25", 0.25), ("1e3", 1000.0), ("a word", "a word"), ("", "")],
)
def test_new_keys_get_the_kind_of_their_value(text: str, value: object, tmp_path: Path) -> None:
    read = read_gguf(converted(tmp_path, ("mine.key", text))).metadata["mine.key"]
    assert read == value
    assert type(read) is type(value)


def test_known_keys_keep_their_kind(tmp_path: Path) -> None:
    edits = (("general.name", "42"), ("llama.rope.freq_base", "7"), ("llama.context_length", "99"))
    metadata = read_gguf(converted(tmp_path, *edits)).metadata
    assert metadata["general.name"] == "42"
    assert metadata["llama.rope.freq_base"] == 7.0
    assert isinstance(metadata["llama.rope.freq_base"], float)
    assert metadata["llama.context_length"] == 99


def test_everything_else_stays(tmp_path: Path) -> None:
    target = read_gguf(converted(tmp_path, ("general.name", "x"), ("general.name", "y")))
    source = read_gguf(tmp_path / "source.gguf")
    assert target.metadata["general.name"] == "y"
    assert list(target.metadata) == list(source.metadata)
    same = [key for key in source.stored if key != "general.name"]
    assert all(bytes(target.stored[k].data) == bytes(source.stored[k].data) for k in same)


def test_a_value_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ messages }}\n")
    edit = ("tokenizer.chat_template", f"@{tmp_path / 't.jinja'}")
    read = read_gguf(converted(tmp_path, edit)).metadata["tokenizer.chat_template"]
    assert read == "{{ messages }}\n"


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("general.alignment", "64", "cannot be set"),
        ("split.count", "2", "cannot be set"),
        ("tokenizer.ggml.tokens", "a", "is a list"),
        ("llama.context_length", "long", "no whole number"),
        ("llama.context_length", "1.5", "no whole number"),
        ("mine.flag", "1", "no true or false"),
        ("mine.new", "@missing.txt", "No such file"),
        ("mine.new", "@.", "Is a directory"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(key: str, text: str, words: str) -> None:
    now: dict[str, OutValue] = {
        "tokenizer.ggml.tokens": ["a", "b"],
        "llama.context_length": np.uint32(512),
        "mine.flag": True,
    }
    with pytest.raises(RequestError, match=words) as caught:
        edited(now, [(key, text)])
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_text_file_has_bounds(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * ((1 << 20) + 1))
    (tmp_path / "bytes").write_bytes(b"ab\xff")
    with pytest.raises(RequestError, match="more than 1,048,576 bytes"):
        edited({}, [("k", f"@{tmp_path / 'long'}")])
    with pytest.raises(RequestError, match="not UTF-8 at byte 2"):
        edited({}, [("k", f"@{tmp_path / 'bytes'}")])
