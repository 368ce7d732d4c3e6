"""Vocabularies for the tests: a tiny one made here, and the metadata of real files."""

import lzma
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from junto.chat.tokenizer import Tokenizer
from junto.formats.gguf import read_gguf
from tests.data_dir import find

N_BYTES = 256
WORDS = ("he", "ll", "hell", "Ġhe", "Ġhell", "Ã©", "12")
MERGES = ("h e", "l l", "he ll", "Ġ he", "Ġ hell", "Ã ©", "1 2")
CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
USER_DEFINED = ("<think>", "</think>")
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_letters() -> list[str]:
    """Letter of each byte in the byte-level alphabet: printable ones are themselves."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    shifted = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(shifted)) for byte in range(N_BYTES)]


def tiny_metadata(**changes: Any) -> dict[str, Any]:
    """GGUF metadata of 256 bytes, some words, three control and two user-defined tokens."""
    tokens = [*byte_letters(), *WORDS, *CONTROL, *USER_DEFINED, "[PAD268]"]
    kinds = [1] * (N_BYTES + len(WORDS)) + [3] * len(CONTROL) + [4] * len(USER_DEFINED) + [5]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(kinds, np.int32),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.chat_template": TEMPLATE,
    }
    for name, value in changes.items():
        key = name.replace("__", ".")
        metadata[key if key.startswith("tokenizer.") else f"tokenizer.ggml.{key}"] = value
    return metadata


def tiny_tokenizer(**changes: Any) -> Tokenizer:
    """A tokenizer of `tiny_metadata`."""
    return Tokenizer.from_gguf(tiny_metadata(**changes), "tiny.gguf")


def unknown_tokenizer(**changes: Any) -> Tokenizer:
    """The tiny tokenizer without <think>, by which families are told: that of none."""
    metadata = tiny_metadata()
    tokens = metadata["tokenizer.ggml.tokens"]
    first = N_BYTES + len(WORDS) + len(CONTROL)
    renamed = [*tokens[:first], "<a>", "</a>", *tokens[first + 2 :]]
    return tiny_tokenizer(tokens=renamed, **changes)


def unpacked(relative: str, folder: Path) -> Path:
    """A file of the test data, decompressed into a folder."""
    packed = find(relative)
    path = folder / packed.stem
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path


def real_metadata(relative: str, folder: Path) -> Mapping[str, Any]:
    """Metadata of a packed GGUF file; one that lacks its tensors is made a file without any."""
    path = unpacked(relative, folder)
    data = bytearray(path.read_bytes())
    data[8:16] = struct.pack("<Q", 0)
    path.write_bytes(data)
    return read_gguf(path).metadata
