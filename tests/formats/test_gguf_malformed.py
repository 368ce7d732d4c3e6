"""95 small hostile or doubtful files: what is refused, what is read, and at what cost."""

import base64
import json
import os
import re
import stat
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from junto.errors import FormatError
from junto.formats.gguf import read_gguf
from tests.data_dir import find
from tests.formats import hostile_run

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in find("gguf/malformed.jsonl").read_text().splitlines()
]

# Legal, unclear or harmless: our choice for each, by the reason. None of them may be misread.
POLICY = {
    "hdr_version_2": "read: the layout is that of version 3",
    "key_not_utf8": "refused: a key is looked up by its text",
    "key_nul": "refused: readers in C see a shorter key",
    "val_not_utf8": "read: U+FFFD for the bad bytes; writers store file paths as they come",
    "key_64k": "refused: the specification allows 65,535 bytes",
    "bool_2": "refused: the specification allows 0 and 1",
    "arr_nested_2": "read: legal; a depth of 8 is the limit",
    "align_1": "refused: the specification wants a multiple of 8",
    "t_ndims_0": "read: a scalar",
    "t_dim_0": "refused: no model has an empty tensor, and readers divide by it",
    "t_data_trailing": "read: nothing points at the bytes",
    "t_gap": "read: nothing points at the bytes",
    "t_order": "read: each info has its own offset",
    "t_name_64": "read: the specification allows 64 bytes",
    "t_name_empty": "refused: it names nothing",
    "t_name_path": "read: a name is never used as a path",
}
MAX_SECONDS = 1.0
MAX_BYTES = 1 << 20


def is_read(row: dict[str, Any]) -> bool:
    """Tell what must happen; what the model loader or the renderer has to stop is a sound file."""
    if row["expect"] == "policy":
        return POLICY[row["id"]].startswith("read")
    return row["expect"] in ("accept", "reject-load", "sandbox")


def test_there_are_95_files_and_a_choice_for_each_doubtful_one() -> None:
    assert len(ROWS) == 95
    assert {row["id"] for row in ROWS if row["expect"] == "policy"} == set(POLICY)


def test_files_neither_crash_nor_hang_nor_fill_a_process(tmp_path: Path) -> None:
    """From opening to loading, with 200 MB of address space for all of it."""
    paths = [tmp_path / f"{row['id']}.gguf" for row in ROWS]
    for path, row in zip(paths, ROWS, strict=True):
        path.write_bytes(base64.b64decode(row["b64"]))
    outcomes = hostile_run.run(paths)
    for row, outcome in zip(ROWS, outcomes, strict=True):
        assert (outcome.refused == "") == is_read(row), row["id"]
        assert re.fullmatch(rf"{row['id']}\.gguf: [^\n]{{1,390}}", outcome.loaded), row["id"]
        assert outcome.seconds < hostile_run.MAX_SECONDS, row["id"]
    assert sum(outcome.n_bytes for outcome in outcomes) < hostile_run.MAX_BYTES


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_file_is_read_or_refused_quickly_in_little_memory(
    row: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / f"{row['id']}.gguf"
    path.write_bytes(base64.b64decode(row["b64"]))
    tracemalloc.start()
    start = time.perf_counter()
    try:
        if is_read(row):
            read_gguf(path)
        else:
            with pytest.raises(FormatError, match=rf"^{path.name}: [^\n]+$"):
                read_gguf(path)
    finally:
        seconds = time.perf_counter() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert seconds < MAX_SECONDS
    assert peak < MAX_BYTES


@pytest.mark.parametrize(
    ("row_id", "problem"),
    [
        ("hdr_magic", "not a GGUF file: it starts with b'GGML', expected b'GGUF'"),
        ("hdr_big_endian", "version 50331648 (a big-endian file), expected 2 or 3, little-endian"),
        ("n_kv_1e9", "header at byte 0: 1000000000 metadata entries exceed the 45 bytes left"),
        ("key_dup", "metadata 'k' at byte 86: the key stands in the file twice"),
        ("arr_n_huge", "4611686018427387904 u32 in 18446744073709551616 bytes exceeds the 8"),
        ("arr_str_n_huge", "1152921504606846976 strings exceed the 9 bytes left"),
        ("arr_nested_5000", "arrays inside arrays deeper than 8"),
        ("align_3", "metadata 'general.alignment' is 3, expected a power of two from 8 to"),
        ("align_type_i32", "metadata 'general.alignment' has value type 5, expected 4 (u32)"),
        ("t_ndims_5", "tensor 'a' at byte 69: 5 dimensions, expected at most 4"),
        ("t_block_misfit", "Q8_0: a row of 33 values is not a multiple of its block of 32"),
        ("t_type_removed", "tensor type 4 is unknown, or was removed from the format"),
        ("t_off_unaligned", "offset 4 is not a multiple of the alignment 32"),
        ("t_ne_wrap", "which has 256 bytes and needs 73786976294838206592"),
        ("t_overlap", "'a' and 'b' overlap: one ends at byte 288, the other starts at byte 160"),
    ],
)
def test_message_tells_expected_and_found(row_id: str, problem: str, tmp_path: Path) -> None:
    (row,) = (row for row in ROWS if row["id"] == row_id)
    (tmp_path / "x.gguf").write_bytes(base64.b64decode(row["b64"]))
    with pytest.raises(FormatError) as raised:
        read_gguf(tmp_path / "x.gguf")
    assert problem in str(raised.value)


def test_path_that_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """Opening a pipe would wait for a writer, and /dev/zero never ends."""
    pipe, folder, device, socket = paths = [tmp_path / f"{name}.gguf" for name in "pfds"]
    os.mkfifo(pipe)
    folder.mkdir()
    device.symlink_to("/dev/zero")
    os.mknod(socket, stat.S_IFSOCK | 0o600)
    for path, outcome in zip(paths, hostile_run.run(paths), strict=True):
        problem = "holds no model.safetensors and no" if path == folder else "not a regular file"
        assert problem in outcome.refused
        assert outcome.refused == outcome.loaded
