"""Parts open as one model from any of them; each way they can be wrong has its own message."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import junto
from junto.errors import FormatError, RequestError
from junto.formats.gguf import GGUFFile, read_gguf, read_part
from junto.formats.gguf_split import part_name
from junto.formats.gguf_split_writer import join_gguf, split_gguf, write_gguf_parts
from junto.formats.gguf_writer import OutTensor
from junto.formats.quant_types import TYPES
from tests.formats import gguf_bytes as g
from tests.tiny.models import TINY

TINY_MODEL = TINY["llama_untied"]


def part_bytes(
    no: int, count: int, n_tensor: int | None, names: str, *kvs: bytes, value: int = 0
) -> bytes:
    """A part as gguf-split writes it, with one-byte tensors named by single letters."""
    keys = [g.kv("split.no", 2, no.to_bytes(2, "little"))]
    keys.append(g.kv("split.count", 2, count.to_bytes(2, "little")))
    if n_tensor is not None:
        keys.append(g.kv("split.tensors.count", 5, g.u32(n_tensor)))
    infos = [g.tensor(name, [1], 24, 32 * i) for i, name in enumerate(names)]
    data = b"".join(bytes([value + i]).ljust(32, b"\0") for i in range(len(names)))
    return g.gguf([*kvs, *keys], infos, data)


ARCH = g.kv("general.architecture", g.STRING, g.string("llama"))


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Three parts written byte by byte: 'a' and 'b', 'c', 'd'."""
    contents = [
        part_bytes(0, 3, 4, "ab", ARCH, value=1),
        part_bytes(1, 3, 4, "c", value=3),
        part_bytes(2, 3, 4, "d", value=4),
    ]
    paths = [tmp_path / part_name("m", i, 3) for i in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def refusal(path: Path) -> str:
    with pytest.raises(FormatError) as raised:
        read_gguf(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def contents(file: GGUFFile) -> dict[str, Any]:
    return {name: (t.shape, t.type.name, t.data.tobytes()) for name, t in file.tensors.items()}


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_any_part_opens_the_model(parts: list[Path], opened: int) -> None:
    file = read_gguf(parts[opened])
    assert dict(file.metadata) == {"general.architecture": "llama"}
    assert list(file.stored) == ["general.architecture"]
    assert file.path == parts[0]
    assert file.files == tuple(parts)
    assert {name: t.float32().tolist() for name, t in file.tensors.items()} == (
        {"a": [1], "b": [2], "c": [3], "d": [4]}
    )
    assert [t.source for t in file.tensors.values()] == [
        parts[i].name for i in (0, 0, 1, 2)
    ]  # for messages


def test_first_part_may_hold_metadata_alone(tmp_path: Path) -> None:
    for i, names in enumerate(("", "ab")):
        content = part_bytes(i, 2, 2, names, *([ARCH] if i == 0 else []))
        (tmp_path / part_name("m", i, 2)).write_bytes(content)
    assert list(read_gguf(tmp_path / part_name("m", 0, 2)).tensors) == ["a", "b"]


@pytest.mark.parametrize("count", [0, 1])
def test_only_part_is_a_whole_file_of_any_name(tmp_path: Path, count: int) -> None:
    (tmp_path / "x.gguf").write_bytes(part_bytes(0, count, 1, "a", ARCH))
    assert list(read_gguf(tmp_path / "x.gguf").tensors) == ["a"]


@pytest.mark.parametrize(("opened", "missing"), [(0, 1), (1, 0), (2, 0)])
def test_missing_part_is_named(parts: list[Path], opened: int, missing: int) -> None:
    parts[missing].unlink()
    assert refusal(parts[opened]) == (
        f"{parts[opened].name}: is part {opened + 1} of 3; missing in its folder: "
        f"{parts[missing].name}; fetch them, or put the parts together"
    )


def test_many_missing_parts_are_counted(tmp_path: Path) -> None:
    (tmp_path / part_name("m", 9, 65535)).write_bytes(part_bytes(9, 65535, 4, "a"))
    message = refusal(tmp_path / part_name("m", 9, 65535))
    assert "m-00001-of-65535.gguf, m-00002-of-65535.gguf, m-00003-of-65535.gguf and 65531 more" in (
        message
    )


def test_part_under_another_kind_of_name_tells_the_right_one(parts: list[Path]) -> None:
    other = parts[1].rename(parts[1].with_name("download.gguf"))
    assert refusal(other) == (
        "download.gguf: is part 2 of 3 by its metadata, expected a name that ends in "
        "'-00002-of-00003.gguf'; give the parts their names back"
    )


def test_part_under_the_name_of_another_is_told(parts: list[Path]) -> None:
    for opened in (0, 2):
        shutil.copy(parts[1], parts[2])
        assert refusal(parts[opened]) == (
            "m-00003-of-00003.gguf: is part 3 of 3 by its name, part 2 of 3 by its metadata; "
            "it was renamed, or replaced by a part of another model"
        )


def test_part_of_a_split_into_more_parts_is_told(parts: list[Path]) -> None:
    parts[1].write_bytes(part_bytes(1, 4, 4, "c"))
    assert "is part 2 of 3 by its name, part 2 of 4 by its metadata" in refusal(parts[0])


def test_whole_file_among_the_parts_is_told(parts: list[Path]) -> None:
    parts[1].write_bytes(g.gguf([ARCH], []))
    assert refusal(parts[0]) == (
        "m-00002-of-00003.gguf: not a part of a split model: its metadata has no 'split.count'"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            part_bytes(1, 3, 5, "c"),
            "m-00002-of-00003.gguf: is of another model than m-00001-of-00003.gguf: "
            "its 'split.tensors.count' is 5, expected 4",
        ),
        (
            part_bytes(1, 3, 4, "c", g.kv("general.architecture", g.STRING, g.string("qwen"))),
            "its 'general.architecture' is 'qwen', expected 'llama'",
        ),
        (
            part_bytes(1, 3, 4, "c", g.kv("split.fingerprint", g.STRING, g.string("0f"))),
            "its 'split.fingerprint' is '0f', expected None",
        ),
        (
            part_bytes(1, 3, 4, "b"),
            "m-00002-of-00003.gguf: is of another model than m-00001-of-00003.gguf: "
            "both hold tensor 'b'",
        ),
        (
            part_bytes(1, 3, 4, "ce"),
            "m-00001-of-00003.gguf: the 3 parts hold 5 tensors, expected 4 "
            "('split.tensors.count'); they are of two models, or one is incomplete",
        ),
        (b"<html>" + bytes(99), "not a GGUF file: it starts with b'<htm', expected b'GGUF'"),
    ],
)
def test_part_of_another_model_is_told(parts: list[Path], content: bytes, problem: str) -> None:
    parts[1].write_bytes(content)
    assert problem in refusal(parts[0])
    assert problem in refusal(parts[2])


def test_number_of_tensors_may_be_left_out(tmp_path: Path) -> None:
    for i, name in enumerate("ab"):
        (tmp_path / part_name("m", i, 2)).write_bytes(part_bytes(i, 2, None, name))
    assert list(read_gguf(tmp_path / part_name("m", 1, 2)).tensors) == ["a", "b"]


@pytest.mark.parametrize(
    ("kvs", "problem"),
    [
        ([g.kv("split.count", g.U32, g.u32(3))], "'split.no' is missing, expected 0 to 2"),
        (
            [g.kv("split.count", 10, g.u64(2**63))],
            "'split.count' is 9223372036854775808, expected 2 to 65535",
        ),
        ([g.kv("split.count", 11, b"\xff" * 8)], "'split.count' is -1, expected 2 to 65535"),
        (
            [g.kv("split.count", g.STRING, g.string("3"))],
            "'split.count' is '3', expected 2 to 65535",
        ),
        (
            [g.kv("split.count", g.ARRAY, g.array(g.U32, [g.u32(2), g.u32(3)]))],
            "'split.count' is array([2, 3], dtype=uint32), expected 2 to 65535",
        ),
        (
            [g.kv("split.count", 4, g.u32(3)), g.kv("split.no", 4, g.u32(3))],
            "'split.no' is 3, expected 0 to 2",
        ),
    ],
)
def test_hostile_split_keys_are_refused(tmp_path: Path, kvs: list[bytes], problem: str) -> None:
    (tmp_path / "x.gguf").write_bytes(g.gguf(kvs, []))
    assert refusal(tmp_path / "x.gguf") == f"x.gguf: metadata {problem}"


def test_split_model_gives_the_logits_of_the_whole_from_any_part(tmp_path: Path) -> None:
    whole = TINY_MODEL.write_gguf(tmp_path / "whole.gguf")
    paths = split_gguf(whole, tmp_path / "m", n_part=3)
    ids = TINY_MODEL.tokens(70)
    logits = junto.load(whole).logits(ids)
    for path in paths:
        assert np.array_equal(junto.load(path).logits(ids), logits)


@pytest.mark.parametrize("n_part", [1, 2, 5])
def test_parts_of_a_number_are_about_equal_and_join_to_the_source(
    tmp_path: Path, n_part: int
) -> None:
    whole = TINY_MODEL.write_gguf(tmp_path / "whole.gguf")
    paths = split_gguf(whole, tmp_path / "m", n_part=n_part)
    assert [path.name for path in paths] == [part_name("m", i, n_part) for i in range(n_part)]
    sizes = [path.stat().st_size for path in paths[1:]]
    largest = max(t.n_bytes for t in read_gguf(whole).tensors.values())
    assert max(sizes, default=0) - min(sizes, default=0) <= 2 * largest
    join_gguf(paths[-1], tmp_path / "joined.gguf")
    assert (tmp_path / "joined.gguf").read_bytes() == whole.read_bytes()
    again = split_gguf(paths[0], tmp_path / "again", n_part=2)
    assert contents(read_gguf(again[1])) == contents(read_gguf(whole))


def test_parts_of_a_size_are_as_few_as_needed_and_not_larger(tmp_path: Path) -> None:
    whole = TINY_MODEL.write_gguf(tmp_path / "whole.gguf")
    for max_bytes in (70_000, 100_000, 150_000, 10_000_000):
        (tmp_path / str(max_bytes)).mkdir()
        paths = split_gguf(whole, tmp_path / str(max_bytes) / "m", max_bytes=max_bytes)
        sizes = [path.stat().st_size for path in paths]
        assert max(sizes) <= max_bytes
        firsts = [next(iter(read_part(path).tensors.values())) for path in paths[1:]]
        for size, first in zip(sizes, firsts, strict=False):  # it did not fit in the part before
            assert size + first.n_bytes + 200 > max_bytes
        assert contents(read_gguf(paths[-1])) == contents(read_gguf(whole))
    assert len(paths) == 1


def test_parts_keep_the_alignment(tmp_path: Path) -> None:
    tensors = [OutTensor(n, (3,), TYPES["I8"], lambda: [b"abc"]) for n in "xyz"]
    paths = write_gguf_parts(tmp_path / "m", {"general.alignment": 256}, tensors, n_part=3)
    assert {path.stat().st_size % 256 for path in paths} == {0}
    assert list(read_gguf(paths[1]).tensors) == ["x", "y", "z"]


def test_parts_of_two_quantisations_of_a_model_are_told_apart(tmp_path: Path) -> None:
    """Names, numbers and counts agree; only the fingerprint knows."""
    for folder, kind in (("a", "I8"), ("b", "I16")):
        (tmp_path / folder).mkdir()
        size = TYPES[kind].n_bytes_per_block * 3
        tensors = [OutTensor(n, (3,), TYPES[kind], lambda s=size: [bytes(s)]) for n in "xy"]  # type: ignore[misc]
        write_gguf_parts(tmp_path / folder / "m", {}, tensors, n_part=2)
    shutil.copy(tmp_path / "b" / part_name("m", 1, 2), tmp_path / "a")
    message = refusal(tmp_path / "a" / part_name("m", 0, 2))
    assert message.startswith("m-00002-of-00002.gguf: is of another model than m-00001-of-00002")
    assert "its 'split.fingerprint' is " in message


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "give one"),
        ({"n_part": 2, "max_bytes": 10_000}, "give one"),
        ({"n_part": 0}, "0 parts, expected 1 to 2, the number of tensors"),
        ({"n_part": 3}, "3 parts, expected 1 to 2, the number of tensors"),
        ({"max_bytes": 20}, "parts of 20 bytes cannot hold the metadata, which is "),
        ({"max_bytes": 400}, "parts of 400 bytes cannot hold tensor 'x' of 3,000 bytes"),
    ],
)
def test_split_that_cannot_be_is_refused(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    tensors = [OutTensor(n, (3000,), TYPES["I8"], lambda: [bytes(3000)]) for n in "xy"]
    with pytest.raises(RequestError, match=problem):
        write_gguf_parts(tmp_path / "m", {}, tensors, **options)
    assert list(tmp_path.iterdir()) == []


def test_error_in_the_last_part_leaves_none(tmp_path: Path) -> None:
    tensors = [OutTensor("x", (3,), TYPES["I8"], lambda: [b"abc"])]
    tensors.append(OutTensor("y", (3,), TYPES["I8"], lambda: [b"ab"]))
    with pytest.raises(FormatError, match=r"^m-00002-of-00002\.gguf: tensor 'y': expected 3"):
        write_gguf_parts(tmp_path / "m", {}, tensors, n_part=2)
    assert list(tmp_path.iterdir()) == []
