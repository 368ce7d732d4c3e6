"""Importance matrices in both forms: means per channel, and one line for every broken file."""

import contextlib
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from junto.errors import FormatError
from junto.quantize import read_importance
from tests.formats import gguf_bytes as g
from tests.tiny.random_weights import F32, uniform

FFN, EXPERTS = "blk.0.ffn_up.weight", "blk.0.ffn_up_exps.weight"


def positive(name: str, shape: tuple[int, ...]) -> F32:
    return np.abs(uniform(name, shape)) + np.float32(0.5)


def entry(name: str, n_call: int, values: F32) -> bytes:
    raw = name.encode()
    head = struct.pack("<i", len(raw)) + raw + struct.pack("<ii", n_call, values.size)
    return head + values.astype("<f4").tobytes()


def dat(*entries: bytes, end: bytes = b"", n_entry: int | None = None) -> bytes:
    return struct.pack("<i", len(entries) if n_entry is None else n_entry) + b"".join(entries) + end


def write(tmp_path: Path, data: bytes, name: str = "imatrix.dat") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def write_gguf(path: Path, tensors: dict[str, F32], kind: str = "imatrix") -> Path:
    """As llama.cpp's imatrix tool writes it, by gguf-py."""
    writer = gguf.GGUFWriter(path, arch="")
    writer.add_type(kind)
    writer.add_array("imatrix.datasets", ["calibration.txt", "more.txt"])
    writer.add_uint32("imatrix.chunk_count", 37)
    writer.add_uint32("imatrix.chunk_size", 512)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_dat_gives_means_of_calls(tmp_path: Path) -> None:
    values, experts = positive("ffn", (96,)), positive("experts", (5, 32))
    end = struct.pack("<ii", 12, 8) + b"wiki.txt"
    data = dat(entry(FFN, 4, values), entry(EXPERTS, 7, experts), end=end)
    matrix = read_importance(write(tmp_path, data))
    assert (matrix.n_chunk, matrix.datasets) == (12, ("wiki.txt",))
    assert list(matrix.entries) == [FFN, EXPERTS]
    np.testing.assert_array_equal(matrix.of(FFN, (17, 96)), values / np.float32(4))
    np.testing.assert_array_equal(matrix.of(EXPERTS, (5, 9, 32)), experts / np.float32(7))
    assert matrix.of("output.weight", (17, 96)) is None


def test_dat_may_end_after_its_entries_and_have_no_calls(tmp_path: Path) -> None:
    values = positive("ffn", (6,))
    matrix = read_importance(write(tmp_path, dat(entry(FFN, 0, values))))
    assert (matrix.n_chunk, matrix.datasets) == (0, ())
    np.testing.assert_array_equal(matrix.of(FFN, (3, 6)), values)


def test_gguf_gives_means_of_tokens(tmp_path: Path) -> None:
    values, experts = positive("ffn", (1, 96)), positive("experts", (5, 32))
    counts = np.array([[3], [0], [8], [1], [2]], np.float32)
    tensors = {
        f"{FFN}.in_sum2": values,
        f"{FFN}.counts": np.array([[6]], np.float32),
        f"{EXPERTS}.in_sum2": experts,
        f"{EXPERTS}.in_sum": -experts,
        f"{EXPERTS}.counts": counts,
    }
    matrix = read_importance(write_gguf(tmp_path / "imatrix.gguf", tensors))
    assert (matrix.n_chunk, matrix.datasets) == (37, ("calibration.txt", "more.txt"))
    np.testing.assert_array_equal(matrix.of(FFN, (17, 96)), values[0] / np.float32(6))
    means = matrix.of(EXPERTS, (5, 9, 32))
    assert means is not None
    np.testing.assert_array_equal(means[1], np.ones(32, np.float32))  # never chosen
    np.testing.assert_array_equal(
        means[[0, 2, 3, 4]], (experts / np.maximum(counts, 1))[[0, 2, 3, 4]]
    )


def test_experts_may_share_their_importance(tmp_path: Path) -> None:
    values = positive("shared", (32,))
    matrix = read_importance(write(tmp_path, dat(entry(EXPERTS, 1, values))))
    np.testing.assert_array_equal(matrix.of(EXPERTS, (5, 9, 32)), values)


def test_another_number_of_channels_is_refused(tmp_path: Path) -> None:
    matrix = read_importance(write(tmp_path, dat(entry(EXPERTS, 1, positive("x", (64,))))))
    with pytest.raises(
        FormatError, match=r"imatrix.dat: '.*exps.*' has 64 importances, expected 160"
    ):
        matrix.of(EXPERTS, (5, 9, 32))


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_sums_that_cannot_be_are_refused(tmp_path: Path, value: float) -> None:
    values = positive("x", (32,))
    values[7] = value
    matrix = read_importance(write(tmp_path, dat(entry(FFN, 1, values))))
    with pytest.raises(FormatError, match="has sums that are negative or not finite"):
        matrix.of(FFN, (3, 32))


GOOD = entry(FFN, 1, positive("good", (8,)))
BROKEN = {
    "empty": (b"", "header.*a i32 of 4 bytes exceeds the 0 bytes left"),
    "no entries": (dat(), "0 entries, expected an importance matrix"),
    "negative count": (dat(n_entry=-5), "-5 entries"),
    "count beyond the file": (dat(GOOD, n_entry=2**31 - 1), "2147483647 entries exceed the"),
    "one entry missing": (dat(GOOD, n_entry=2), "entry 2 of 2.* exceeds the 0 bytes left"),
    "same name twice": (dat(GOOD, GOOD), "stands in the file twice"),
    "no name": (dat(entry("", 1, positive("x", (8,)))), "name length 0, expected 1 to 1024"),
    "long name": (dat(entry("n" * 1025, 1, positive("x", (8,)))), "name length 1025"),
    "negative name": (dat(struct.pack("<i", -1) + bytes(64)), "name length -1"),
    "name beyond the file": (dat(struct.pack("<i", 900) + bytes(64)), "name length 900 exceeds"),
    "no values": (dat(entry(FFN, 1, positive("x", (0,))) + bytes(8)), "0 values, expected"),
    "values beyond the file": (dat(GOOD[:-4]), "8 values exceeds the 28 bytes left"),
    "text": (b"this is a letter, not a matrix", "entries exceed the|entries, expected at most"),
    "bad end": (dat(GOOD, end=struct.pack("<ii", 1, -7)), "end at byte .*name length -7"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_dat_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    data, message = BROKEN[case]
    with pytest.raises(FormatError, match=message) as caught:
        read_importance(write(tmp_path, data))
    assert str(caught.value).startswith("imatrix.dat: ")
    assert "\n" not in str(caught.value)


SUMS, COUNTS = np.ones((2, 32), np.float32), np.ones((2, 1), np.float32)
BROKEN_GGUF: dict[str, tuple[dict[str, F32], str]] = {
    "no tensors": ({"a.weight": SUMS}, "no tensor NAME.in_sum2"),
    "no counts": ({"a.in_sum2": SUMS}, "'a.in_sum2' has no 'a.counts'"),
    "odd counts": ({"a.in_sum2": SUMS, "a.counts": np.ones((3, 1), np.float32)}, "of its 3 counts"),
    "bad counts": ({"a.in_sum2": SUMS, "a.counts": -COUNTS}, "has counts that are negative"),
    "halves": ({"a.in_sum2": SUMS.astype(np.float16), "a.counts": COUNTS}, "F16, expected F32"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN_GGUF)
def test_broken_gguf_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    tensors, message = BROKEN_GGUF[case]
    with pytest.raises(FormatError, match=message) as caught:
        read_importance(write_gguf(tmp_path / "imatrix.gguf", tensors))
    assert "\n" not in str(caught.value)


def test_gguf_of_a_model_is_no_importance_matrix(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", {"a.in_sum2": SUMS, "a.counts": COUNTS}, kind="model")
    with pytest.raises(FormatError, match=r"'general\.type' is 'model', expected 'imatrix'"):
        read_importance(path)
    path.write_bytes(g.gguf([], []))
    with pytest.raises(FormatError, match=r"'general\.type' is None, expected 'imatrix'"):
        read_importance(path)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_dat_never_fails_otherwise(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(dat(GOOD, entry(EXPERTS, 3, positive("x", (2, 16))), end=bytes(8)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    path = write(tmp_path_factory.getbasetemp(), bytes(whole[:cut]), "damaged.dat")
    with contextlib.suppress(FormatError):
        matrix = read_importance(path)
        matrix.of(FFN, (3, 8))
        matrix.of(EXPERTS, (2, 3, 16))
