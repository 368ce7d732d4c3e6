"""Hostile and doubtful checkpoints: what is refused, what is read, and at what cost.

A row is a folder and what must come of it: the message of the refusal, or READ. Where a file is
legal, unclear or harmless, the reason for the choice stands beside READ.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from junto.errors import FormatError
from junto.formats.safetensors import read_safetensors
from tests.formats import hostile_run
from tests.formats.safetensors_bytes import entry, file_bytes

READ = "read"

WHOLE = "model.safetensors"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"

Make = Callable[[Path], object]
"""Makes what stands under a name: the bytes of a file, or anything else."""


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def index(weight_map: object) -> bytes:
    return text({"metadata": {}, "weight_map": weight_map})


A = file_bytes({"a": entry("U8", [3], 0, 3)}, b"\1\2\3")
B = file_bytes({"b": entry("I16", [2], 0, 4)}, b"\4\0\5\0")
SOUND: Mapping[str, bytes | Make] = {FIRST: A, SECOND: B, INDEX: index({"a": FIRST, "b": SECOND})}


@dataclass(frozen=True, slots=True)
class Row:
    """What stands in the folder, and the outcome: READ, or the message from its start on."""

    id: str
    files: Mapping[str, bytes | Make]
    outcome: str


def one(id: str, content: bytes, outcome: str) -> Row:
    return Row(id, {WHOLE: content}, outcome)


def header(id: str, raw: str | bytes | dict[str, Any], outcome: str, data: bytes = b"") -> Row:
    return one(id, file_bytes(raw, data), f"{WHOLE}: {outcome}" if outcome != READ else READ)


def tensor(id: str, fields: object, outcome: str, n_data: int = 4) -> Row:
    outcome = f"tensor 't': {outcome}" if outcome != READ else READ
    return header(id, {"t": fields}, outcome, bytes(n_data))


def parts(id: str, outcome: str, **changes: bytes | Make | None) -> Row:
    """The sound folder with its first, second or index file changed, or others beside them."""
    names = {"first": FIRST, "second": SECOND, "index": INDEX, "config": "config.json"}
    files = {**SOUND, **{names.get(key, key): value for key, value in changes.items()}}
    return Row(id, {name: make for name, make in files.items() if make is not None}, outcome)


def link_out(path: Path) -> None:
    """As the cache of a hub has it: the file lies elsewhere, under the hash of its content."""
    (path.parent.parent / "blob").write_bytes(A)
    path.symlink_to("../blob")


def deep(n: int) -> str:
    return '{"t": ' + "[" * n + "]" * n + "}"


TWO = {"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 2, 4)}

ROWS = [
    # the length before the header
    one("empty_file", b"", f"{WHOLE}: the file has 0 bytes, its header length alone takes 8"),
    one("length_short", bytes(7), f"{WHOLE}: the file has 7 bytes, its header length alone takes"),
    one("length_2_40", file_bytes("{}", b"", 1 << 40), f"{WHOLE}: header length 1099511627776 exc"),
    one(
        "length_2_64",
        file_bytes("{}", b"", (1 << 64) - 1),
        f"{WHOLE}: header length 18446744073709551615 exceeds the 2 bytes left",
    ),
    one("length_one_more", file_bytes("{}", b"", 3), f"{WHOLE}: header length 3 exceeds the 2 byt"),
    one("length_one_less", file_bytes("{}", b"", 1), f"{WHOLE}: header: not JSON: Expecting"),
    one("length_0", file_bytes("{}", b"", 0), f"{WHOLE}: header: not JSON: Expecting value"),
    # the JSON of the header
    header("json_list", "[]", "header: JSON list, expected an object"),
    header("json_number", "7", "header: JSON int, expected an object"),
    header("json_cut", '{"t": {"dtype": "U8"', "header: not JSON: Expecting"),
    header("json_two_values", "{}{}", "header: not JSON: Extra data"),
    header("json_byte_order_mark", b"\xef\xbb\xbf{}", "header: not JSON: Unexpected UTF-8 BOM"),
    header("json_utf16", '{"t": 1}'.encode("utf-16"), "header: not UTF-8 at byte 0 of the JSON"),
    header("json_not_utf8", b'{"\xff": 1}', "header: not UTF-8 at byte 2 of the JSON"),
    header("json_nul", b"{}\0", "header: not JSON: Extra data"),
    header("json_deep", deep(100_000), "header: JSON nested too deep"),
    header("json_huge_number", '{"t": 1' + "0" * 5000 + "}", "header: not JSON: Exceeds the limit"),
    header("json_key_twice", '{"t": 1, "t": 2}', "header: key 't' stands twice in one JSON object"),
    header(
        "json_many_items",
        '{"t": [' + "[]," * 300_000 + "0]}",
        "header: JSON of 600002 items, expected at most 524288",
    ),
    header("json_padded", json.dumps({"t": entry("U8", [1], 0, 1)}) + " " * 9, READ, b"\7"),
    # the metadata and the tensors of the header
    header("metadata_list", {"__metadata__": []}, "'__metadata__' in the header is not an object"),
    header("metadata_number", {"__metadata__": {"n": 1}}, "'__metadata__' in the header is not an"),
    tensor("entry_list", [], "expected an object of dtype, shape and data_offsets"),
    tensor("entry_short", {"dtype": "U8", "shape": [4]}, "expected an object of dtype, shape and"),
    tensor("entry_more", {**entry("U8", [4], 0, 4), "x": 1}, "expected an object of dtype, shape"),
    header(
        "entry_key_twice",
        '{"t": {"dtype": "U8", "dtype": "I8", "shape": [1], "data_offsets": [0, 1]}}',
        "header: key 'dtype' stands twice in one JSON object",
    ),
    tensor("dtype_unknown", entry("F7", [4], 0, 4), "dtype 'F7', expected one of F32, F16"),
    tensor("dtype_of_gguf", entry("Q4_0", [32], 0, 18), "dtype 'Q4_0', expected one of F32"),
    tensor("dtype_number", {**entry("", [4], 0, 4), "dtype": 4}, "dtype 4, expected one of F32"),
    tensor("shape_negative", entry("U8", [-2, -2], 0, 4), "shape [-2, -2], expected up to 8 count"),
    tensor("shape_nan", {**entry("U8", [], 0, 4), "shape": [float("nan")]}, "shape [nan], expect"),
    tensor("shape_float", {**entry("U8", [], 0, 4), "shape": [4.0]}, "shape [4.0], expected up to"),
    tensor("shape_bool", {**entry("U8", [], 0, 1), "shape": [True]}, "shape [True], expected up"),
    tensor("shape_text", {**entry("U8", [], 0, 4), "shape": "4"}, "shape '4', expected up to 8"),
    tensor("shape_nine_axes", entry("U8", [1] * 9, 0, 1), "shape [1, 1, 1, 1, 1, 1, ...], expect"),
    tensor("shape_2_64", entry("U8", [1 << 64], 0, 4), "shape [18446744073709551616], expected up"),
    tensor("shape_wraps", entry("U8", [1 << 62, 8], 0, 4), "shape [4611686018427387904, 8] is bey"),
    tensor("shape_wraps_empty", entry("U8", [0, 1 << 62, 8], 0, 0), "shape [0, 46116860184273879"),
    tensor("shape_of_others", entry("F32", [2, 3], 0, 4), "data_offsets [0, 4] hold 4 bytes, expe"),
    tensor("shape_scalar", entry("F32", [], 0, 4), READ),
    tensor("shape_empty", entry("F32", [0, 7], 0, 0), READ, n_data=0),
    tensor("offsets_negative", entry("U8", [4], -4, 0), "data_offsets [-4, 0], expected two count"),
    tensor("offsets_reversed", entry("U8", [4], 4, 0), "data_offsets [4, 0] hold -4 bytes, expect"),
    tensor("offsets_three", {**entry("U8", [4], 0, 4), "data_offsets": [0, 4, 4]}, "data_offsets"),
    tensor("offsets_2_63", entry("U8", [4], 1 << 63, (1 << 63) + 4), "data_offsets [9223372036"),
    header(
        "offsets_far",
        {"t": entry("U8", [4], 1 << 62, (1 << 62) + 4)},
        "tensor 't' leaves a hole after the header: its data starts at byte 46116860184273",
    ),
    # how tensors fill the data
    header("data_short", TWO, "the file is cut short, fetch it again: it has", bytes(3)),
    header("data_missing", TWO, "the file is cut short, fetch it again: it has"),
    header("data_trailing", TWO, "the file has a tail: it has", bytes(5)),
    header("data_hole", {**TWO, "b": entry("U8", [2], 3, 5)}, "tensor 'b' leaves a hole", bytes(5)),
    header("data_overlap", {**TWO, "b": entry("U8", [2], 1, 3)}, "tensor 'b' overlaps", bytes(3)),
    header("data_shared", {**TWO, "b": entry("U8", [2], 0, 2)}, "tensor 'b' overlaps", bytes(2)),
    header("data_before_other", {"z": TWO["b"], "a": TWO["a"]}, READ, bytes(4)),
    header(
        "data_unaligned",  # numpy views do not mind, and real files have it
        {"a": entry("U8", [1], 0, 1), "b": entry("F32", [1], 1, 5)},
        READ,
        bytes(5),
    ),
    header("name_path", {"../../etc/x": entry("U8", [1], 0, 1)}, READ, b"\7"),  # never a path
    header("name_empty", {"": entry("U8", [1], 0, 1)}, READ, b"\7"),  # the models know no such one
    # the index and its shards
    parts("index_sound", READ),
    parts("index_parent", f"{INDEX}: tensor 'a' is said to be in '../x.safetensors', expected the",
          index=index({"a": "../x.safetensors", "b": SECOND})),
    parts("index_absolute", f"{INDEX}: tensor 'a' is said to be in '/etc/x.safetensors', expected",
          index=index({"a": "/etc/x.safetensors", "b": SECOND})),
    parts("index_subfolder", f"{INDEX}: tensor 'a' is said to be in 'sub/x.safetensors', expected",
          index=index({"a": "sub/x.safetensors", "b": SECOND})),
    parts("index_nul", f"{INDEX}: tensor 'a' is said to be in 'x\\x00.safetensors', expected",
          index=index({"a": "x\0.safetensors", "b": SECOND})),
    parts("index_hidden", f"{INDEX}: tensor 'a' is said to be in '.safetensors', expected the name",
          index=index({"a": ".safetensors", "b": SECOND})),
    parts("index_of_itself", f"{INDEX}: tensor 'a' is said to be in '{INDEX}', expected the name",
          index=index({"a": INDEX, "b": SECOND})),
    parts("index_number", f"{INDEX}: tensor 'a' is said to be in 7, expected the name of a .safete",
          index=index({"a": 7, "b": SECOND})),
    parts("index_list", f"{INDEX}: no 'weight_map' of tensor names to file names", index=index([])),
    parts("index_empty", f"{INDEX}: no 'weight_map' of tensor names to", index=index({})),
    parts("index_no_map", f"{INDEX}: no 'weight_map' of tensor names to", index=text({"a": FIRST})),
    parts("index_broken", f"{INDEX}: not JSON: Expecting", index=b'{"weight_map": {"a": '),
    parts("index_key_twice", f"{INDEX}: key 'a' stands twice in one JSON object",
          index=f'{{"weight_map": {{"a": "{FIRST}", "a": "{SECOND}"}}}}'.encode()),
    parts("index_swaps", f"{FIRST}: holds tensor 'a', which {INDEX} places in {SECOND}",
          index=index({"a": SECOND, "b": FIRST})),
    parts("index_lists_more", f"{FIRST}: does not hold tensor 'c', as {INDEX} says",
          index=index({"a": FIRST, "b": SECOND, "c": FIRST})),
    parts("index_lists_less", f"{SECOND}: tensor 'c' is not listed in {INDEX}",
          second=file_bytes({"b": entry("I16", [2], 0, 4), "c": entry("U8", [0], 4, 4)}, bytes(4))),
    parts("index_pipe", "{folder}/" + f"{INDEX}: not a regular file", index=os.mkfifo),
    parts("index_folder", "{folder}/" + f"{INDEX}: not a regular file", index=os.mkdir),
    parts("shard_missing", f"{INDEX}: shard {SECOND} is missing; fetch it again", second=None),
    parts("shard_short", f"{SECOND}: the file is cut short, fetch it again: it has", second=B[:-1]),
    parts("shard_doubled", f"{FIRST}: holds tensor 'b', which {INDEX} places in {SECOND}",
          first=file_bytes({"a": entry("U8", [3], 0, 3), "b": entry("U8", [1], 3, 4)}, bytes(4))),
    parts("shard_of_html", f"{SECOND}: header length 8104636974849335612 exce",
          second=b"<!doctype html><html>"),
    parts("shard_folder", "{folder}/" + f"{SECOND}: not a regular file", second=os.mkdir),
    parts("shard_pipe", "{folder}/" + f"{SECOND}: not a regular file", second=os.mkfifo),
    parts("shard_endless", "{folder}/" + f"{SECOND}: not a regular file",
          second=lambda path: path.symlink_to("/dev/zero")),
    parts("shard_link_to_itself", f"{INDEX}: shard {SECOND} is missing; fetch it again",
          second=lambda path: path.symlink_to(path.name)),
    parts("shard_link_out", READ, first=link_out),  # the cache of a hub is made of such links
    parts("shard_stray", "model-00003-of-00003.safetensors: a stray file: ",
          **{"model-00003-of-00003.safetensors": A}),
    parts("shard_whole_stray", f"{WHOLE}: a stray file: {INDEX} does not name it", **{WHOLE: A}),
    parts("shard_of_others", READ, **{"adapter.safetensors": b"broken"}),  # not part of the model
    # the config beside them
    parts("config_broken", "config.json: not JSON: Expecting", config=b"{'a': 1}"),
    parts("config_list", "config.json: JSON list, expected an object", config=b"[]"),
    parts("config_deep", "config.json: JSON nested too deep", config=deep(100_000).encode()),
    parts("config_pipe", "{folder}/config.json: not a regular file", config=os.mkfifo),
    Row("folder_empty", {}, f"{{folder}}: holds no {WHOLE} and no {INDEX}; found: none"),
    Row("folder_in_folder", {WHOLE: os.mkdir}, "{folder}/" + f"{WHOLE}: not a regular file"),
]  # fmt: skip


def make(row: Row, folder: Path) -> Path:
    folder.mkdir()
    for name, content in row.files.items():
        if isinstance(content, bytes):
            (folder / name).write_bytes(content)
        else:
            content(folder / name)
    return folder


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_checkpoint_is_read_or_refused(row: Row, tmp_path: Path) -> None:
    folder = make(row, tmp_path / "m")
    if row.outcome == READ:
        for tensor in read_safetensors(folder).tensors.values():
            assert tensor.data.nbytes == tensor.n_bytes
        return
    with pytest.raises(FormatError) as raised:
        read_safetensors(folder)
    assert str(raised.value).startswith(row.outcome.format(folder=folder))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_there_are_more_than_40_rows_each_with_its_own_name() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS) > 40


def test_checkpoints_neither_crash_nor_hang_nor_fill_a_process(tmp_path: Path) -> None:
    """From opening to loading, with 200 MB of address space for all of it."""
    folders = [make(row, tmp_path / row.id) for row in ROWS]
    outcomes = hostile_run.run(folders)
    for row, outcome in zip(ROWS, outcomes, strict=True):
        assert (outcome.refused == "") == (row.outcome == READ), row.id
        assert outcome.loaded, "none has a config that says what it is"
        assert "\n" not in outcome.loaded, row.id
        assert outcome.seconds < hostile_run.MAX_SECONDS, row.id
    assert sum(outcome.n_bytes for outcome in outcomes) < hostile_run.MAX_BYTES
