"""One file: dtypes, layout, and every fault of its header."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from junto.errors import FormatError
from junto.formats.safetensors import read_safetensors
from tests.formats.safetensors_bytes import entry, file_bytes


def refusal(path: Path) -> str:
    with pytest.raises(FormatError) as raised:
        read_safetensors(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_file(header: Any, data: bytes = b"", **options: int) -> Path:
        path = tmp_path / "x.safetensors"
        path.write_bytes(file_bytes(header, data, **options))
        return path

    return write_file


@pytest.mark.parametrize(
    ("dtype", "numpy_dtype"),
    [
        ("F64", "<f8"),
        ("F32", "<f4"),
        ("F16", "<f2"),
        ("I64", "<i8"),
        ("I32", "<i4"),
        ("I16", "<i2"),
        ("I8", "i1"),
        ("U8", "u1"),
        ("BOOL", "?"),
    ],
)
def test_dtype_is_decoded(write: Callable[..., Path], dtype: str, numpy_dtype: str) -> None:
    values = np.array([[1, 0, 1], [0, 1, 1]], numpy_dtype)
    path = write({"t": entry(dtype, [2, 3], 0, values.nbytes)}, values.tobytes())
    tensor = read_safetensors(path).tensors["t"]
    assert (tensor.shape, tensor.type.name, tensor.source) == ((2, 3), dtype, "x.safetensors")
    np.testing.assert_array_equal(tensor.float32(), values.astype(np.float32))


def test_bf16_is_the_upper_half_of_float32(write: Callable[..., Path]) -> None:
    values = np.array([1.5, -2.0, 3.25], "<f4")
    data = values.view("<u2")[1::2].tobytes()
    path = write({"t": entry("BF16", [3], 0, 6)}, data)
    assert read_safetensors(path).tensors["t"].float32().tolist() == values.tolist()


def test_scalar_empty_and_padded_header(write: Callable[..., Path]) -> None:
    header = {
        "s": entry("F32", [], 0, 4),
        "e": entry("F32", [0, 7], 4, 4),
        "__metadata__": {"k": "v"},
    }
    tensors = read_safetensors(write(json.dumps(header) + "   ", b"\0\0\x80\x3f")).tensors
    assert tensors["s"].float32() == 1
    assert tensors["s"].shape == ()
    assert tensors["e"].float32().shape == (0, 7)


def test_empty_tensors_may_stand_at_one_place(write: Callable[..., Path]) -> None:
    header = {"z": entry("U8", [0], 1, 1), "t": entry("U8", [1], 0, 1), "y": entry("U8", [0], 0, 0)}
    assert set(read_safetensors(write(header, b"\7")).tensors) == {"z", "t", "y"}


def test_data_is_a_read_only_view(write: Callable[..., Path]) -> None:
    data = read_safetensors(write({"t": entry("U8", [2, 3], 0, 6)}, bytes(6))).tensors["t"].data
    assert (data.shape, data.flags.writeable, data.flags.owndata) == ((2, 3), False, False)


def test_dtype_known_by_size_only_opens_and_is_refused_when_decoded(
    write: Callable[..., Path],
) -> None:
    tensor = read_safetensors(write({"w": entry("F8_E4M3", [2], 0, 2)}, b"\1\2")).tensors["w"]
    assert tensor.data.tolist() == [1, 2]
    with pytest.raises(
        FormatError, match=r"x\.safetensors: tensor 'w': type F8_E4M3 cannot be decod"
    ):
        tensor.float32()


@pytest.mark.parametrize("content", [b"", b"\0" * 7])
def test_file_shorter_than_a_length_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    assert f"x.safetensors: the file has {len(content)} bytes" in refusal(
        tmp_path / "x.safetensors"
    )


@pytest.mark.parametrize("n_header", [3, 2**40, 2**64 - 1])
def test_header_longer_than_the_file_is_refused(write: Callable[..., Path], n_header: int) -> None:
    path = write("{}", n_header=n_header)
    assert refusal(path) == f"x.safetensors: header length {n_header} exceeds the 2 bytes left"


def test_huge_header_is_refused_unread(write: Callable[..., Path], monkeypatch: Any) -> None:
    monkeypatch.setattr("junto.formats.safetensors_shard.MAX_JSON_BYTES", 10)
    assert "header length 11, expected at most 10" in refusal(write("{" + " " * 9 + "}"))


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe{}", "not UTF-8 at byte 0"),
        ("{", "not JSON"),
        ("[]", "JSON list, expected an object"),
        ("[" * 100_000, "nested too deep"),
        ('{"t": {"dtype": "U8", "shape": [' + "9" * 5000 + "]}}", "not JSON: Exceeds the limit"),
        ('{"t": {}, "t": {}}', "key 't' stands twice"),
        ('{"t": {"dtype": "U8", "dtype": "I8"}}', "key 'dtype' stands twice"),
        ({"__metadata__": {"n": 1}}, "'__metadata__' in the header is not an object of strings"),
        ({"__metadata__": []}, "'__metadata__' in the header is not an object of strings"),
    ],
)
def test_broken_json_is_refused(write: Callable[..., Path], header: Any, problem: str) -> None:
    message = refusal(write(header))
    assert message.startswith("x.safetensors: ")
    assert problem in message


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ([], "expected an object of dtype, shape and data_offsets"),
        ({"dtype": "U8", "shape": [1]}, "expected an object of dtype, shape and data_offsets"),
        (entry("F7", [1], 0, 1), "dtype 'F7', expected one of F32, F16"),
        (entry("Q4_0", [32], 0, 18), "dtype 'Q4_0', expected one of"),
        ({**entry("U8", [1], 0, 1), "dtype": ["U8"]}, "dtype ['U8'], expected one of"),
        (entry("U8", [-1, -1], 0, 1), "shape [-1, -1], expected up to 8 counts"),
        ({**entry("U8", [1], 0, 1), "shape": [1.0]}, "shape [1.0], expected up to 8 counts"),
        ({**entry("U8", [1], 0, 1), "shape": [True]}, "shape [True], expected up to 8 counts"),
        (entry("U8", [1] * 9, 0, 1), "shape [1, 1, 1, 1, 1, 1, ...], expected up to 8 counts"),
        (entry("U8", [0, 2**62, 2**62], 0, 0), "is beyond any memory"),
        ({**entry("U8", [1], 0, 1), "data_offsets": [0, 1, 1]}, "expected two counts"),
        (
            {**entry("U8", [1], 0, 1), "data_offsets": "01"},
            "data_offsets '01', expected two counts",
        ),
        (entry("U8", [1], -1, 0), "data_offsets [-1, 0], expected two counts"),
        (entry("U8", [1], 1, 0), "data_offsets [1, 0] hold -1 bytes, expected 1"),
        (entry("F32", [2, 3], 0, 12), "hold 12 bytes, expected 24 for F32 of shape (2, 3)"),
        (entry("F32", [2**31, 2**28], 0, 4), "hold 4 bytes, expected 2305843009213693952"),
    ],
)
def test_broken_entry_is_refused(write: Callable[..., Path], fields: Any, problem: str) -> None:
    message = refusal(write({"w": fields}, b"\0"))
    assert message.startswith("x.safetensors: tensor 'w': ")
    assert problem in message


@pytest.mark.parametrize(
    ("begins", "data", "problem"),
    [
        (
            (0, 1),
            3,
            "tensor 'b' overlaps 'a': its data starts at byte {1} of the file, expected {2}",
        ),
        ((0, 0), 2, "tensor 'b' overlaps 'a'"),
        (
            (0, 3),
            5,
            "tensor 'b' leaves a hole after 'a': its data starts at byte {3} of the file, exp",
        ),
        ((1, 3), 5, "tensor 'a' leaves a hole after the header"),
        (
            (0, 2),
            3,
            "the file is cut short, fetch it again: it has {3} bytes, its header describes {4}",
        ),
        ((0, 2), 5, "the file has a tail: it has {5} bytes, its header describes {4}"),
        ((0, 2**62), 4, "tensor 'b' leaves a hole after 'a'"),
    ],
)
def test_tensors_must_fill_the_data(
    write: Callable[..., Path], begins: tuple[int, int], data: int, problem: str
) -> None:
    a, b = begins
    header = {"a": entry("I16", [1], a, a + 2), "b": entry("U8", [2], b, b + 2)}
    data_start = len(file_bytes(header))
    message = refusal(write(header, bytes(data)))
    assert problem.format(*range(data_start, data_start + 6)) in message
