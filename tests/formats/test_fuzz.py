"""Flipped bytes and fields: a reader parses the file or raises FormatError, and nothing else."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from junto.errors import FormatError
from junto.formats.gguf import read_gguf
from junto.formats.quants import DECODERS
from junto.formats.safetensors import read_safetensors
from junto.formats.tensor import Tensor
from tests.formats import gguf_bytes as g

N_DATA = 164
GGUF = g.gguf(
    [
        g.kv("general.architecture", g.STRING, g.string("llama")),
        g.kv("general.alignment", g.U32, g.u32(32)),
        g.kv("flag", g.BOOL, b"\1"),
        g.kv("bools", g.ARRAY, g.array(g.BOOL, [b"\0", b"\1", b"\1"])),
        g.kv("tokens", g.ARRAY, g.array(g.STRING, [g.string("a"), g.string("bc"), g.string("")])),
        g.kv("nested", g.ARRAY, g.array(g.ARRAY, [g.array(g.U32, [g.u32(5)])])),
    ],
    [g.tensor("q", [32, 2], 8, 0), g.tensor("m", [32, 3, 1], 39, 96), g.tensor("s", [], 0, 160)],
    bytes(range(N_DATA)),
)
HEADER = json.dumps(
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [5], "data_offsets": [24, 34]},
    }
).encode()
SAFETENSORS = struct.pack("<Q", len(HEADER)) + HEADER + bytes(range(34))

# Values at which sizes wrap, and small ones that pass for other counts, types and lengths.
FIELDS = st.sampled_from([0, 1, 7, 8, 9, 255, 2**31, 2**32 - 1, 2**61, 2**63, 2**64 - 1])
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True), st.sampled_from([1, 4, 8]), FIELDS | st.integers(0, 255)
    ),
    min_size=1,
    max_size=3,
)
fuzz = settings(
    max_examples=300,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def edited(content: bytes, edits: list[tuple[float, int, int]]) -> bytes:
    raw = bytearray(content)
    for place, width, value in edits:
        start = int(place * len(raw))
        raw[start : start + width] = (value % 256**width).to_bytes(width, "little")
    return bytes(raw)


def refusal(path: Path, content: bytes, read: Callable[[Path], list[Tensor]]) -> str:
    """Read a file and all of its tensors; return the message if it is refused, else nothing."""
    path.write_bytes(content)
    try:
        tensors = read(path)
    except FormatError as error:
        return str(error)
    for tensor in tensors:
        assert tensor.data.nbytes == tensor.n_bytes
        assert tensor.type.name not in DECODERS or tensor.float32().shape == tensor.shape
    return ""


def is_one_short_line(message: str) -> bool:
    return "\n" not in message and len(message) < 1000


def gguf_tensors(path: Path) -> list[Tensor]:
    file = read_gguf(path)
    for value in file.metadata.values():
        if not isinstance(value, int | float | str):
            list(value)
    return list(file.tensors.values())


def safetensors_tensors(path: Path) -> list[Tensor]:
    return list(read_safetensors(path).tensors.values())


def test_seeds_are_sound(tmp_path: Path) -> None:
    assert refusal(tmp_path / "seed.gguf", GGUF, gguf_tensors) == ""
    assert refusal(tmp_path / "seed.safetensors", SAFETENSORS, safetensors_tensors) == ""


@fuzz
@given(edits)
def test_edited_gguf_parses_or_is_refused(
    tmp_path: Path, edits: list[tuple[float, int, int]]
) -> None:
    assert is_one_short_line(refusal(tmp_path / "x.gguf", edited(GGUF, edits), gguf_tensors))


@fuzz
@given(edits)
def test_edited_safetensors_parses_or_is_refused(
    tmp_path: Path, edits: list[tuple[float, int, int]]
) -> None:
    content = edited(SAFETENSORS, edits)
    assert is_one_short_line(refusal(tmp_path / "x.safetensors", content, safetensors_tensors))


def test_gguf_cut_anywhere_is_refused(tmp_path: Path) -> None:
    for n in range(len(GGUF)):
        assert refusal(tmp_path / "x.gguf", GGUF[:n], gguf_tensors), n


def test_safetensors_cut_anywhere_is_refused(tmp_path: Path) -> None:
    for n in range(len(SAFETENSORS)):
        assert refusal(tmp_path / "x.safetensors", SAFETENSORS[:n], safetensors_tensors), n


@pytest.mark.parametrize("value", [0x00, 0x80, 0xFF])
def test_every_single_byte_of_a_gguf_header_may_be_anything(tmp_path: Path, value: int) -> None:
    for at in range(len(GGUF) - N_DATA):
        content = GGUF[:at] + bytes([value]) + GGUF[at + 1 :]
        assert is_one_short_line(refusal(tmp_path / "x.gguf", content, gguf_tensors)), at
