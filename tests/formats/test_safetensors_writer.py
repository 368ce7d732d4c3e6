"""Checkpoints that are written read back the same, by our reader and by the bytes themselves."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from junto.errors import DiskError, FormatError
from junto.formats.quant_types import TYPES
from junto.formats.safetensors import read_safetensors
from junto.formats.safetensors_writer import OutTensor, write_safetensors

META = {"format": "pt"}
RNG = np.random.default_rng(3)


def out(name: str, shape: tuple[int, ...], type_name: str) -> OutTensor:
    kind = TYPES[type_name]
    data = RNG.integers(
        0, 256, (*shape[:-1], kind.n_bytes_row(shape[-1] if shape else 1)), np.uint8
    )
    return OutTensor(name, shape, kind, lambda: [data])


def bytes_of(tensor: OutTensor) -> bytes:
    return b"".join(np.asarray(piece).tobytes() for piece in tensor.pieces())


TENSORS = [
    out("odd", (3, 5), "U8"),
    out("a", (2, 3), "BF16"),
    out("empty", (0, 7), "F32"),
    out("b", (7,), "F32"),
    out("scalar", (), "F16"),
    out("wide", (2, 2, 2), "I64"),
]


@pytest.mark.parametrize(("max_bytes", "n_shard"), [(1 << 30, 1), (64, 2), (1, 6)])
def test_tensors_read_back_equal(tmp_path: Path, max_bytes: int, n_shard: int) -> None:
    counts: list[int] = []
    files = write_safetensors(tmp_path, TENSORS, META, max_bytes, counts.append)
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert len(files) == (n_shard if n_shard == 1 else n_shard + 1)
    assert sum(counts) == sum(tensor.n_bytes for tensor in TENSORS)
    got = read_safetensors(tmp_path).tensors
    assert sorted(got) == sorted(tensor.name for tensor in TENSORS)
    for tensor in TENSORS:
        read = got[tensor.name]
        assert (read.shape, read.type, read.data.tobytes()) == (
            (tensor.shape, tensor.type, bytes_of(tensor))
        )


def test_header_is_that_of_the_format(tmp_path: Path) -> None:
    (path,) = write_safetensors(tmp_path, TENSORS[:2], META)
    content = path.read_bytes()
    (n_header,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + n_header])
    assert path.name == "model.safetensors"
    assert header == {
        "__metadata__": META,
        "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
        "odd": {"dtype": "U8", "shape": [3, 5], "data_offsets": [12, 27]},
    }
    assert content[8 + n_header :] == bytes_of(TENSORS[1]) + bytes_of(TENSORS[0])


def test_every_tensor_is_aligned_to_its_numbers(tmp_path: Path) -> None:
    (path,) = write_safetensors(tmp_path, TENSORS, META)
    start = read_safetensors(path).tensors["wide"].data.ctypes.data
    for tensor in read_safetensors(path).tensors.values():
        if tensor.n_bytes:
            offset = tensor.data.ctypes.data - start
            assert offset % tensor.type.n_bytes_per_block == 0, tensor.name
    (n_header,) = struct.unpack_from("<Q", path.read_bytes())
    assert n_header % 8 == 0


def test_index_tells_size_and_places(tmp_path: Path) -> None:
    write_safetensors(tmp_path, TENSORS[:4], META, max_shard_bytes=30)
    first, second = (f"model-{i:05d}-of-00002.safetensors" for i in (1, 2))
    assert json.loads((tmp_path / "model.safetensors.index.json").read_text()) == {
        "metadata": {"total_size": 55},
        "weight_map": {"odd": first, "a": first, "empty": first, "b": second},
    }


def test_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for name in "xy":
        (tmp_path / name).mkdir()
        files = write_safetensors(tmp_path / name, TENSORS, META, 64)
        contents.append({file.name: file.read_bytes() for file in files})
    assert contents[0] == contents[1]


def test_error_in_the_last_shard_leaves_nothing(tmp_path: Path) -> None:
    broken = OutTensor("last", (2, 3), TYPES["BF16"], lambda: [b"short"])
    with pytest.raises(FormatError) as raised:
        write_safetensors(tmp_path, [*TENSORS, broken], META, 64)
    assert str(raised.value) == (
        "model-00003-of-00003.safetensors: tensor 'last': expected 12 bytes for BF16 of shape "
        "(2, 3), its source gave 5"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tensors", "problem"),
    [
        ([TENSORS[0], TENSORS[0]], "tensor 'odd' is given twice"),
        ([out("__metadata__", (1,), "U8")], "or is a name that the format keeps"),
        ([out("q", (2, 32), "Q8_0")], "tensor 'q': type Q8_0 is none of safetensors's"),
    ],
)
def test_tensors_that_the_format_cannot_hold_are_refused(
    tmp_path: Path, tensors: Any, problem: str
) -> None:
    with pytest.raises(FormatError, match=problem):
        write_safetensors(tmp_path, tensors, META)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["model.safetensors", "model-00001-of-00009.safetensors"])
def test_folder_with_weights_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"dear")
    with pytest.raises(DiskError, match=f"holds {name} already; choose an empty folder"):
        write_safetensors(tmp_path, TENSORS, META)
    assert os.listdir(tmp_path) == [name]
