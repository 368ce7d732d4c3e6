"""What is written reads back the same: by our reader, byte by byte, and by gguf-py."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from junto.errors import FormatError
from junto.formats import out_tensor
from junto.formats.gguf import read_gguf
from junto.formats.gguf_encoding import OutValue
from junto.formats.gguf_writer import OutTensor, write_gguf
from junto.formats.quant_types import TYPES, TYPES_BY_ID
from tests.data_dir import REPOSITORY
from tests.formats import gguf_bytes as g
from tests.tiny.models import MIXES, TINY


def out(name: str, shape: tuple[int, ...], type_name: str, *pieces: bytes) -> OutTensor:
    return OutTensor(name, shape, TYPES[type_name], lambda: pieces)


def written(path: Path, metadata: Mapping[str, OutValue], *tensors: OutTensor) -> bytes:
    write_gguf(path, metadata, tensors)
    return path.read_bytes()


def refusal(metadata: Mapping[str, OutValue], *tensors: OutTensor) -> str:
    """The message; the folder is none, so that nothing can have been written."""
    with pytest.raises(FormatError) as raised:
        write_gguf("none/x.gguf", metadata, tensors)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_bytes_are_those_of_the_specification(tmp_path: Path) -> None:
    tensors = [out("a", (2, 3), "I8", b"\1\2\3", b"", b"\4\5\6"), out("s", (), "F32", b"\0" * 4)]
    got = written(tmp_path / "x.gguf", {"k": "v", "n": 7}, *tensors)
    kvs = [g.kv("k", g.STRING, g.string("v")), g.kv("n", g.U32, g.u32(7))]
    infos = [g.tensor("a", [3, 2], 24, 0), g.tensor("s", [], 0, 32)]
    assert got == g.gguf(kvs, infos, b"\1\2\3\4\5\6".ljust(64, b"\0"))
    assert got == written(tmp_path / "y.gguf", {"k": "v", "n": 7}, *tensors)


def test_empty_file_is_a_header(tmp_path: Path) -> None:
    assert written(tmp_path / "x.gguf", {}) == g.gguf([], [])[:24]


@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_tensors_start_at_multiples_of_the_alignment(tmp_path: Path, alignment: int) -> None:
    tensors = [out("a", (3,), "I8", b"abc"), out("b", (5,), "I8", b"defgh")]
    got = written(tmp_path / "x.gguf", {"general.alignment": alignment}, *tensors)
    assert (len(got) % alignment, got[-alignment:]) == (0, b"defgh".ljust(alignment, b"\0"))
    assert got[-2 * alignment :][:8] == b"abc\0\0\0\0\0"
    assert [t.data.tobytes() for t in read_gguf(tmp_path / "x.gguf").tensors.values()] == [
        b"abc",
        b"defgh",
    ]


@pytest.mark.parametrize(
    ("value", "type_id", "data"),
    [
        (0, 4, g.u32(0)),
        (2**32 - 1, 4, b"\xff" * 4),
        (-1, 5, b"\xff" * 4),
        (2**32, 10, g.u64(2**32)),
        (-(2**31) - 1, 11, (-(2**31) - 1).to_bytes(8, "little", signed=True)),
        (True, 7, b"\1"),
        (0.5, 6, b"\0\0\0\x3f"),
        (float("inf"), 6, b"\0\0\x80\x7f"),
        ("né", 8, g.string("né")),
        (np.uint8(3), 0, b"\3"),
        (np.int8(-3), 1, b"\xfd"),
        (np.uint16(3), 2, b"\3\0"),
        (np.int16(-3), 3, b"\xfd\xff"),
        (np.int32(3), 5, g.u32(3)),
        (np.uint64(3), 10, g.u64(3)),
        (np.int64(3), 11, g.u64(3)),
        (np.float64(0.5), 12, b"\0\0\0\0\0\0\xe0\x3f"),
        (np.bool_(True), 7, b"\1"),
        (["a", ""], 9, g.array(8, [g.string("a"), g.string("")])),
        ([1, -1], 9, g.array(5, [g.u32(1), b"\xff" * 4])),
        ([2**31], 9, g.array(4, [g.u32(2**31)])),
        ([-1, 2**31], 9, g.array(11, [b"\xff" * 8, g.u64(2**31)])),
        ([2**63], 9, g.array(10, [g.u64(2**63)])),
        ((True, False), 9, g.array(7, [b"\1", b"\0"])),
        ([0.5], 9, g.array(6, [b"\0\0\0\x3f"])),
        (np.array([1, 2], np.uint16), 9, g.array(2, [b"\1\0", b"\2\0"])),
        (np.array([], np.int32), 9, g.array(5, [])),
        (np.array([True, False]), 9, g.array(7, [b"\1", b"\0"])),
        ([["a"], [2]], 9, g.array(9, [g.array(8, [g.string("a")]), g.array(5, [g.u32(2)])])),
    ],
)  # fmt: skip
def test_value_gets_its_type(tmp_path: Path, value: Any, type_id: int, data: bytes) -> None:
    assert (
        written(tmp_path / "x.gguf", {"k": value})
        == (g.gguf([g.kv("k", type_id, data)], [])[: 24 + 9 + 4 + len(data)])
    )


def test_values_are_copied_as_they_are_stored(tmp_path: Path) -> None:
    """A width that no Python number tells, text that is not UTF-8, an empty array of arrays."""
    kvs = [
        g.kv("u16", 2, b"\7\0"),
        g.kv("f64", 12, np.float64(0.1).tobytes()),
        g.kv("path", g.STRING, g.string(b"caf\xe9")),
        g.kv("tokens", g.ARRAY, g.array(g.STRING, [g.string(b"\xff"), g.string("")])),
        g.kv("nested", g.ARRAY, g.array(g.ARRAY, [g.array(g.ARRAY, [])])),
        g.kv("none", g.ARRAY, g.array(g.ARRAY, [])),
    ]
    content = g.gguf(kvs, [g.tensor("t", [1], 24, 0)], b"\1".ljust(32, b"\0"))
    (tmp_path / "a.gguf").write_bytes(content)
    file = read_gguf(tmp_path / "a.gguf")
    copies = [OutTensor.copy(tensor) for tensor in file.tensors.values()]
    assert written(tmp_path / "b.gguf", file.stored, *copies) == content


scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(width=32, allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
arrays = st.one_of(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1).map(lambda n: np.array(n, np.int32)),
    st.lists(st.floats(allow_nan=False)).map(lambda n: np.array(n, np.float64)),
    st.lists(st.booleans()).map(lambda n: np.array(n, np.bool_)),
)
values = scalars | st.recursive(arrays, lambda inner: st.lists(inner, min_size=1), max_leaves=6)
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


def plain(value: Any) -> Any:
    """The value in lists and Python numbers, to compare."""
    if isinstance(value, str | bool | int | float):
        return value
    return [plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]


@settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.dictionaries(keys, values, max_size=6))
def test_metadata_reads_back_equal(tmp_path: Path, metadata: dict[str, Any]) -> None:
    write_gguf(tmp_path / "x.gguf", metadata, [])
    got = read_gguf(tmp_path / "x.gguf").metadata
    assert list(got) == list(metadata)
    assert {key: plain(value) for key, value in got.items()} == (
        {key: plain(value) for key, value in metadata.items()}
    )


@pytest.mark.parametrize("kind", TYPES_BY_ID.values(), ids=lambda kind: kind.name)
def test_tensors_of_every_type_read_back_equal(tmp_path: Path, kind: Any) -> None:
    shape = (2, 3, 5 * kind.n_per_block)
    data = np.random.default_rng(1).integers(0, 256, kind.n_bytes_row(shape[-1]) * 6, np.uint8)
    pieces = [data[:7].tobytes(), data[7:]]
    write_gguf(tmp_path / "x.gguf", {}, [OutTensor("t", shape, kind, lambda: pieces)])
    (tensor,) = read_gguf(tmp_path / "x.gguf").tensors.values()
    assert (tensor.name, tensor.shape, tensor.type) == ("t", shape, kind)
    np.testing.assert_array_equal(tensor.data.reshape(-1), data)


@pytest.mark.parametrize("name", ["qwen35moe_ratio4", "gpt_oss_mxfp4", "llama_untied"])
def test_model_by_gguf_py_is_copied_byte_by_byte(tmp_path: Path, name: str) -> None:
    source = TINY[name].write_gguf(tmp_path / "a.gguf")
    file = read_gguf(source)
    copies = [OutTensor.copy(tensor) for tensor in file.tensors.values()]
    assert written(tmp_path / "b.gguf", file.stored, *copies) == source.read_bytes()


def test_gguf_py_reads_it_equal(tmp_path: Path) -> None:
    MIXES["qwen35moe_q4_k"].write_gguf(tmp_path / "a.gguf")
    file = read_gguf(tmp_path / "a.gguf")
    metadata: dict[str, Any] = {
        "general.architecture": "test",
        "n": 7,
        "below": -7,
        "x": 0.5,
        "wide": np.float64(0.1),
        "flag": True,
        "texts": ["a", "", "ß"],
        "numbers": np.array([3, 1, 4], np.int64),
    }
    copies = [OutTensor.copy(tensor) for tensor in file.tensors.values()]
    write_gguf(tmp_path / "b.gguf", metadata, copies)
    got = gguf.GGUFReader(tmp_path / "b.gguf")
    contents = {key: got.fields[key].contents() for key in metadata}
    assert contents == {**metadata, "numbers": [3, 1, 4]}
    kinds = {key: got.fields[key].types[-1].name for key in ("n", "below", "x", "wide", "numbers")}
    assert kinds == {
        "n": "UINT32",
        "below": "INT32",
        "x": "FLOAT32",
        "wide": "FLOAT64",
        "numbers": "INT64",
    }
    for tensor in got.tensors:
        ours = file.tensors[tensor.name]
        assert tensor.tensor_type.name == ours.type.name
        assert tuple(tensor.shape.tolist()) == ours.shape[::-1]
        np.testing.assert_array_equal(tensor.data.view(np.uint8).ravel(), ours.data.ravel())


def test_progress_counts_the_bytes_of_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out_tensor, "PIECE", 5)
    write_gguf(tmp_path / "a.gguf", {}, [out("t", (3, 4), "I8", bytes(12))])
    (tensor,) = read_gguf(tmp_path / "a.gguf").tensors.values()
    counts: list[int] = []
    write_gguf(tmp_path / "b.gguf", {}, [OutTensor.copy(tensor)], counts.append)
    assert counts == [5, 5, 2]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("", 1, "metadata '': a name has 1 to 65535 bytes, none of them NUL"),
        ("a\0b", 1, r"metadata 'a\x00b': a name has 1 to 65535 bytes, none of them NUL"),
        ("ß" * 32768, 1, "a name has 1 to 65535 bytes"),
        ("\ud800", 1, "character 0 is half of a surrogate pair"),
        ("k", "x\ud800", "metadata 'k': the text: character 1 is half of a surrogate pair"),
        ("k", 2**64, "metadata 'k': 18446744073709551616 to 18446744073709551616 fit no one type"),
        ("k", [-1, 2**63], "metadata 'k': -1 to 9223372036854775808 fit no one type of 64 bits"),
        ("k", 1e39, "metadata 'k': 1e+39 does not fit float32; give a numpy.float64"),
        ("k", [], "an empty list tells no element type; give an empty NumPy array"),
        ("k", [1, "a"], "the items of the list have no one type that GGUF knows"),
        ("k", [1, True], "the items of the list have no one type"),
        ("k", None, "a NoneType is no value of a GGUF"),
        ("k", b"raw", "a bytes is no value of a GGUF"),
        ("k", np.zeros((2, 3), np.int8), "an array of shape (2, 3), expected one axis"),
        ("k", np.array(["a"]), "NumPy's <U1 is no type of GGUF's"),
        ("k", np.array([1], ">u4"), "NumPy's >u4 is no type of GGUF's"),
        ("k", np.float16(1), "NumPy's float16 is no type of GGUF's"),
        ("k", [[[[[[[[[1]]]]]]]]], "arrays inside arrays deeper than 8"),
        ("general.alignment", 24, "'general.alignment' is 24, expected a power of two (u32)"),
        ("general.alignment", "32", "is '32', expected a power of two (u32) from 8 to 1048576"),
        ("general.alignment", np.uint64(32), "expected a power of two (u32)"),
    ],
)
def test_metadata_that_gguf_cannot_hold_is_refused(key: str, value: Any, problem: str) -> None:
    message = refusal({key: value})
    assert message.startswith("x.gguf: ")
    assert problem in message


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (out("", (1,), "I8"), "tensor '': a name has 1 to 64 bytes, none of them NUL"),
        (out("n" * 65, (1,), "I8"), "a name has 1 to 64 bytes"),
        (out("t", (1,) * 5, "I8"), "shape (1, 1, 1, 1, 1), expected at most 4 axes of at least 1"),
        (out("t", (2, 0), "I8"), "shape (2, 0), expected at most 4 axes of at least 1"),
        (out("t", (2, -1), "I8"), "shape (2, -1), expected at most 4 axes of at least 1"),
        (out("t", (2, 33), "Q8_0"), "tensor 't': Q8_0: a row of 33 values is not a multiple of"),
        (out("t", (2,), "U8"), "tensor 't': type U8 is not one of GGUF's"),
    ],
)
def test_tensor_that_gguf_cannot_hold_is_refused(tensor: OutTensor, problem: str) -> None:
    message = refusal({}, tensor)
    assert message.startswith("x.gguf: tensor ")
    assert problem in message


def test_tensor_given_twice_is_refused() -> None:
    tensor = out("t", (1,), "I8", b"\1")
    assert refusal({}, tensor, tensor) == "x.gguf: tensor 't' is given twice"


@pytest.mark.parametrize(
    ("pieces", "got"), [((b"ab", b"c"), "3"), ((b"abcde",), "more"), ((), "0")]
)
def test_tensor_with_other_bytes_than_announced_is_refused(
    tmp_path: Path, pieces: Iterable[bytes], got: str
) -> None:
    with pytest.raises(FormatError) as raised:
        write_gguf(tmp_path / "x.gguf", {}, [out("t", (2, 2), "I8", *pieces)])
    assert str(raised.value) == (
        f"x.gguf: tensor 't': expected 4 bytes for I8 of shape (2, 2), its source gave {got}"
    )
    assert list(tmp_path.iterdir()) == []


COPY = """
import sys
from junto.formats.gguf import read_gguf
from junto.formats.gguf_writer import OutTensor, write_gguf
from junto.formats.quant_types import TYPES
from tests.peak_memory import peak_bytes
def peak():
    return peak_bytes() >> 20
start = peak()
piece = bytes(1 << 20)
big = OutTensor("t", (160, 1 << 20), TYPES["I8"], lambda: (piece for _ in range(160)))
write_gguf(sys.argv[1], {}, [big])
made = peak()
tensors = read_gguf(sys.argv[1]).tensors.values()
write_gguf(sys.argv[2], {}, [OutTensor.copy(tensor) for tensor in tensors])
print(made - start, peak() - made)
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COPY, str(tmp_path / "a.gguf"), str(tmp_path / "b.gguf")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, cwd=REPOSITORY
    )
    made, copied = map(int, done.stdout.split())
    assert made < 20, "MiB, for a file of 160"
    assert copied < 30, "MiB, with pages of the mapped file"
    assert (tmp_path / "b.gguf").stat().st_size > 160 << 20
