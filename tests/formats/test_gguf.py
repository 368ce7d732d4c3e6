"""Files written byte by byte come back as the specification says; faults name file and place."""

import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from junto.errors import FormatError
from junto.formats.gguf import GGUFFile, StringArray, read_gguf
from tests.data_dir import find
from tests.formats import gguf_bytes as g

Write = Callable[[bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(content: bytes) -> Path:
        path = tmp_path / "x.gguf"
        path.write_bytes(content)
        return path

    return write_file


def read_values(write: Write, *kvs: bytes) -> GGUFFile:
    return read_gguf(write(g.gguf(list(kvs), [])))


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(write: Write, version: int) -> None:
    file = read_gguf(write(g.gguf([g.kv("k", g.U8, b"\7")], [], version=version)))
    assert (file.version, dict(file.metadata)) == (version, {"k": 7})


@pytest.mark.parametrize(
    ("type_id", "value"),
    [
        (0, 255),
        (1, -128),
        (2, 65535),
        (3, -32768),
        (4, 2**32 - 1),
        (5, -(2**31)),
        (10, 2**64 - 1),
        (11, -(2**63)),
        (6, 0.5),
        (12, 0.1),
        (7, True),
        (7, False),
    ],
)
def test_number_has_its_value_and_python_type(write: Write, type_id: int, value: float) -> None:
    got = read_values(write, g.kv("k", type_id, g.scalar(type_id, value))).metadata["k"]
    assert (got, type(got)) == (value, type(value))


def test_string_is_text(write: Write) -> None:
    file = read_values(
        write, g.kv("größe", g.STRING, g.string("naïve 🦙")), g.kv("e", g.STRING, g.u64(0))
    )
    assert dict(file.metadata) == {"größe": "naïve 🦙", "e": ""}


@pytest.mark.parametrize("type_id", g.SCALARS)
def test_array_of_numbers_is_a_read_only_array(write: Write, type_id: int) -> None:
    elements = [g.scalar(type_id, n) for n in (1, 0, 1)]
    got = read_values(write, g.kv("k", g.ARRAY, g.array(type_id, elements))).metadata["k"]
    assert isinstance(got, np.ndarray)
    assert got.tolist() == [1, 0, 1]
    assert got.dtype == np.dtype(g.SCALARS[type_id])
    assert not got.flags.writeable


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=6) | st.sampled_from([b"\n", b"\xf0\x9f", "é\n".encode()])))
def test_texts_of_an_array_are_the_same_all_at_once_and_one_by_one(
    tmp_path: Path, texts: list[bytes]
) -> None:
    path = tmp_path / "texts.gguf"
    content = [g.kv("k", g.ARRAY, g.array(g.STRING, list(map(g.string, texts))))]
    path.write_bytes(g.gguf(content, []))
    got = read_gguf(path).metadata["k"]
    assert isinstance(got, StringArray)
    assert list(got) == [got[i] for i in range(len(texts))]
    assert list(got) == [text.decode("utf-8", "replace") for text in texts]


def test_array_of_strings_is_a_sequence(write: Write) -> None:
    texts = ["", "a", "bc", "ß"]
    elements = [g.string(text) for text in texts]
    got = read_values(write, g.kv("k", g.ARRAY, g.array(g.STRING, elements))).metadata["k"]
    assert isinstance(got, StringArray)
    assert list(got) == texts
    assert (len(got), got[2], got[-1], got[1:3]) == (4, "bc", "ß", ["a", "bc"])
    assert ("bc" in got, got.index("bc")) == (True, 2)
    with pytest.raises(IndexError):
        got[4]


def test_array_of_arrays_is_a_list(write: Write) -> None:
    inner = [
        g.array(g.U8, [b"\1", b"\2"]),
        g.array(g.STRING, [g.string("x")]),
        g.array(g.ARRAY, []),
    ]
    got = read_values(write, g.kv("k", g.ARRAY, g.array(g.ARRAY, inner))).metadata["k"]
    assert isinstance(got, list)
    assert [list(element) for element in got] == [[1, 2], ["x"], []]  # type: ignore[arg-type]


def test_bytes_that_are_not_utf8_are_replaced_in_values(write: Write) -> None:
    elements = [g.string(b"\xff"), g.string("ok")]
    file = read_values(
        write,
        g.kv("path", g.STRING, g.string(b"caf\xe9.txt")),
        g.kv("tokens", g.ARRAY, g.array(g.STRING, elements)),
    )
    assert file.metadata["path"] == "caf�.txt"
    assert list(file.metadata["tokens"]) == ["�", "ok"]  # type: ignore[arg-type]


def test_tensors_are_row_major_views_of_the_file(write: Write) -> None:
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    data = values.tobytes().ljust(64, b"\0") + bytes(range(34))
    infos = [g.tensor("a", [3, 2], 0, 0), g.tensor("q", [32, 1], 8, 64)]
    file = read_gguf(write(g.gguf([], infos, data)))
    a, q = file.tensors.values()
    assert (a.name, a.shape, a.type.name, a.source, a.n_bytes) == ("a", (2, 3), "F32", "x.gguf", 24)
    np.testing.assert_array_equal(a.float32(), values)
    assert not a.data.flags.writeable
    assert (q.shape, q.data.tolist()) == ((1, 32), [list(range(34))])


def test_scalar_tensor_has_one_value(write: Write) -> None:
    file = read_gguf(write(g.gguf([], [g.tensor("s", [], 0, 0)], np.float32(2.5).tobytes())))
    assert file.tensors["s"].shape == ()
    assert file.tensors["s"].float32() == 2.5


def test_alignment_of_the_file_is_followed(write: Write) -> None:
    kvs = [g.kv("general.alignment", g.U32, g.u32(8))]
    file = read_gguf(
        write(g.gguf(kvs, [g.tensor("t", [1], 24, 8)], bytes(8) + b"\x2a", alignment=8))
    )
    assert file.tensors["t"].float32().tolist() == [42]


def test_order_gaps_and_trailing_bytes_are_free(write: Write) -> None:
    infos = [g.tensor("late", [2], 24, 96), g.tensor("early", [2], 24, 0)]
    data = b"\1\2".ljust(96, b"\xee") + b"\3\4" + b"tail"
    tensors = read_gguf(write(g.gguf([], infos, data))).tensors
    assert {n: t.float32().tolist() for n, t in tensors.items()} == {
        "late": [3, 4],
        "early": [1, 2],
    }


def test_tensor_outlives_file_object_and_directory_entry(write: Write) -> None:
    path = write(g.gguf([], [g.tensor("t", [2], 24, 0)], b"\5\6"))
    tensor = read_gguf(path).tensors["t"]
    path.unlink()
    assert tensor.float32().tolist() == [5, 6]


def test_unknown_type_names_tensor_and_number(write: Write) -> None:
    with pytest.raises(FormatError, match=r"x\.gguf: tensor 't' at byte \d+: tensor type 99 is"):
        read_gguf(write(g.gguf([], [g.tensor("t", [256, 3], 99, 0)], bytes(198))))


def test_number_4_is_mxfp4_in_the_publisher_s_order_in_gptoss_files_alone(write: Write) -> None:
    """Ollama numbered it so before ggml had the type; elsewhere 4 is a removed one."""
    block = bytes([128, 0x21] + [0x9F] * 15)
    infos = [g.tensor("t", [32], 4, 0)]
    keys = {
        name: [g.kv("general.architecture", g.STRING, g.string(name))]
        for name in ("gptoss", "gpt-oss")
    }
    values = read_gguf(write(g.gguf(keys["gptoss"], infos, block))).tensors["t"].float32()
    assert values[:4].tolist() == [2 * 0.5, 2 * 1.0, 2 * -6.0, 2 * -0.5]
    with pytest.raises(FormatError, match="tensor type 4 is unknown, or was removed"):
        read_gguf(write(g.gguf(keys["gpt-oss"], infos, block)))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "F16"])
def test_file_written_by_gguf_py_is_read_alike(tmp_path: Path, name: str) -> None:
    kind = gguf.GGMLQuantizationType[name]
    values = np.random.default_rng(5).standard_normal((2, 3, 64)).astype(np.float32)
    stored = gguf.quants.quantize(values, kind)
    writer = gguf.GGUFWriter(tmp_path / "w.gguf", "llama")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "ç"])
    writer.add_array("lengths", [3, 1, 4])
    writer.add_tensor("w", stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read_gguf(tmp_path / "w.gguf")
    assert file.metadata["general.architecture"] == "llama"
    assert list(file.metadata["tokenizer.ggml.tokens"]) == ["a", "b", "ç"]  # type: ignore[arg-type]
    assert file.metadata["lengths"].tolist() == [3, 1, 4]  # type: ignore[union-attr]
    np.testing.assert_array_equal(file.tensors["w"].float32(), gguf.quants.dequantize(stored, kind))


def test_real_header_without_weights_reports_the_missing_data(write: Write) -> None:
    """The first 1.8 MB of a 98 MB file, as a broken download leaves it."""
    path = write(lzma.decompress(find("gguf/smollm2-135m-q4_1.header.gguf.xz").read_bytes()))
    expected = (
        r"x\.gguf: tensor data is missing: 272 of 272 tensors, first 'token_embd\.weight' of shape "
        r"\(49152, 576\), end beyond the file, which has 1785664 bytes and needs 98362432; "
        "if it was cut short, fetch it again"
    )
    with pytest.raises(FormatError, match=f"^{expected}$"):
        read_gguf(path)


def test_error_shows_place_length_and_bytes_left(write: Write) -> None:
    content = g.gguf([g.kv("k" * 20, g.STRING, g.u64(1 << 40) + b"twelve bytes")], [])
    content = content[: content.index(b"twelve") + 12]
    with pytest.raises(FormatError) as raised:
        read_gguf(write(content))
    place = f"x.gguf: metadata '{'k' * 20}' at byte 24"
    assert str(raised.value) == f"{place}: string length 1099511627776 exceeds the 12 bytes left"


def test_last_string_of_an_array_may_end_with_the_file_but_not_beyond(write: Write) -> None:
    content = g.gguf([g.kv("k", g.ARRAY, g.array(g.STRING, [g.string("ab"), g.string("cd")]))], [])
    content = content[: content.index(b"cd") + 2]
    assert list(read_gguf(write(content)).metadata["k"]) == ["ab", "cd"]  # type: ignore[arg-type]
    with pytest.raises(FormatError, match=r"the last of 2 strings would end at byte 69 of 68"):
        read_gguf(write(content[:-1]))
    huge_first = content.replace(g.string("ab"), g.u64(2**64 - 1) + b"ab")
    with pytest.raises(
        FormatError, match=r"string 1 of 2 would start at byte 18446744073709551672"
    ):
        read_gguf(write(huge_first))


def test_more_items_than_any_model_has_are_refused(write: Write, monkeypatch: Any) -> None:
    """What fits in a big file must still not become a million objects."""
    monkeypatch.setattr("junto.formats.gguf_cursor.MAX_ITEMS", 4)
    inner = [g.array(g.U8, [])] * 2
    kvs = [g.kv("k", g.ARRAY, g.array(g.ARRAY, inner))]
    info = g.tensor("t", [1], 24, 0)
    assert len(read_gguf(write(g.gguf(kvs, [info], b"\0"))).tensors) == 1
    with pytest.raises(FormatError, match=r"metadata 'j' .*: 2 arrays, expected at most 4 items"):
        read_values(write, *kvs, g.kv("j", g.ARRAY, g.array(g.ARRAY, inner)))
    with pytest.raises(FormatError, match=r"tensor infos at byte \d+: 2 tensors, expected at most"):
        read_gguf(write(g.gguf(kvs, [info, info], b"\0")))


def test_more_strings_than_any_vocabulary_has_are_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stepping over them takes time, and a gigabyte holds a hundred million empty ones."""
    monkeypatch.setattr("junto.formats.gguf_cursor.MAX_STRINGS", 3)
    two = g.array(g.STRING, [g.string("a"), g.string("")])
    with pytest.raises(
        FormatError, match=r"'j' at byte \d+: 2 strings, expected at most 3 in a fil"
    ):
        read_values(write, g.kv("k", g.ARRAY, two), g.kv("j", g.ARRAY, two))


def test_long_or_multiline_names_keep_the_message_on_one_short_line(write: Write) -> None:
    with pytest.raises(FormatError) as raised:
        read_values(write, g.kv("line\n" * 9000, 77, b""))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


def test_tensor_name_of_64_bytes_is_the_longest(write: Write) -> None:
    longest = read_gguf(write(g.gguf([], [g.tensor("n" * 64, [1], 24, 0)], b"\0")))
    assert list(longest.tensors) == ["n" * 64]
    with pytest.raises(FormatError, match="name length 65, expected 1 to 64 bytes"):
        read_gguf(write(g.gguf([], [g.tensor("n" * 65, [1], 24, 0)], b"\0")))


def test_files_that_cannot_be_mapped_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.gguf: cannot be opened: No such file"):
        read_gguf(tmp_path / "none.gguf")
    with pytest.raises(FormatError, match="not a regular file"):
        read_gguf(tmp_path)
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(FormatError, match="not a regular file"):
        read_gguf(tmp_path / "pipe.gguf")
