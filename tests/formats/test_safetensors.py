"""Many shards read as one checkpoint; every way a folder can be wrong is refused with its file."""

import json
import shutil
from pathlib import Path

import pytest

from junto.errors import FormatError
from junto.formats import json_file
from junto.formats.safetensors import read_safetensors
from tests.formats.safetensors_bytes import entry, file_bytes

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def refusal(path: Path) -> str:
    with pytest.raises(FormatError) as raised:
        read_safetensors(path)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound checkpoint of two shards: 'a' in the first, 'b' and 'c' in the second."""
    (tmp_path / FIRST).write_bytes(file_bytes({"a": entry("U8", [3], 0, 3)}, b"\1\2\3"))
    second = {"b": entry("I16", [2], 0, 4), "c": entry("U8", [1], 4, 5)}
    (tmp_path / SECOND).write_bytes(file_bytes(second, b"\4\0\5\0\6"))
    write_index(tmp_path, {"a": FIRST, "b": SECOND, "c": SECOND})
    (tmp_path / "config.json").write_text('{"model_type": "tiny"}')
    return tmp_path


def write_index(folder: Path, weight_map: object) -> None:
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def values_of(path: Path) -> dict[str, list[float]]:
    return {name: t.float32().tolist() for name, t in read_safetensors(path).tensors.items()}


@pytest.mark.parametrize("name", ["", INDEX])
def test_folder_and_index_give_all_shards(folder: Path, name: str) -> None:
    assert values_of(folder / name) == {"a": [1, 2, 3], "b": [4, 5], "c": [6]}
    assert read_safetensors(folder / name).config == {"model_type": "tiny"}
    shards = sorted(folder.glob("*.safetensors"))
    assert read_safetensors(folder / name).files == (folder / INDEX, *shards)


def test_folder_with_one_file(tmp_path: Path) -> None:
    whole = tmp_path / "model.safetensors"
    whole.write_bytes(file_bytes({"t": entry("U8", [1], 0, 1)}, b"\7"))
    (tmp_path / "adapter.safetensors").write_bytes(b"of no concern")
    assert values_of(tmp_path) == values_of(whole) == {"t": [7]}
    assert read_safetensors(tmp_path).files == read_safetensors(whole).files == (whole,)
    assert read_safetensors(tmp_path).config == {}


def test_missing_shard_is_refused(folder: Path) -> None:
    (folder / SECOND).unlink()
    assert refusal(folder) == f"{INDEX}: shard {SECOND} is missing; fetch it again"


def test_short_shard_is_refused(folder: Path) -> None:
    content = (folder / SECOND).read_bytes()
    (folder / SECOND).write_bytes(content[:-2])
    size = len(content)
    assert f"cut short, fetch it again: it has {size - 2} bytes, its header describes {size}" in (
        refusal(folder)
    )


def test_tensor_in_two_shards_is_refused(folder: Path) -> None:
    doubled = {"a": entry("U8", [3], 0, 3), "c": entry("U8", [1], 3, 4)}
    (folder / FIRST).write_bytes(file_bytes(doubled, b"\1\2\3\6"))
    assert refusal(folder) == f"{FIRST}: holds tensor 'c', which {INDEX} places in {SECOND}"


def test_tensor_the_index_does_not_list_is_refused(folder: Path) -> None:
    write_index(folder, {"a": FIRST, "b": SECOND})
    assert refusal(folder) == f"{SECOND}: tensor 'c' is not listed in {INDEX}"


def test_tensor_its_shard_does_not_hold_is_refused(folder: Path) -> None:
    write_index(folder, {"a": FIRST, "b": SECOND, "c": SECOND, "d": FIRST})
    assert refusal(folder) == f"{FIRST}: does not hold tensor 'd', as {INDEX} says"


@pytest.mark.parametrize(
    "stray",
    [
        "model-00001-of-00003.safetensors",
        "model.safetensors-00003-of-00003.safetensors",
        "model.safetensors",
    ],
)
def test_stray_shard_of_another_copy_is_refused(folder: Path, stray: str) -> None:
    shutil.copy(folder / FIRST, folder / stray)
    assert refusal(folder) == (
        f"{stray}: a stray file: {INDEX} does not name it; move one of them away"
    )


def test_stray_shard_beside_a_whole_model_is_refused(folder: Path) -> None:
    (folder / INDEX).rename(folder / "old.json")
    shutil.copy(folder / FIRST, folder / "model.safetensors")
    assert f"{FIRST}: a stray file: model.safetensors does not name it" in refusal(folder)


def test_other_files_beside_the_shards_are_nobodys_business(folder: Path) -> None:
    (folder / "consolidated.safetensors").write_bytes(b"")
    assert len(read_safetensors(folder).tensors) == 3


def test_folder_without_weights_says_what_it_found(folder: Path) -> None:
    (folder / INDEX).unlink()
    message = refusal(folder)
    assert f"holds no model.safetensors and no {INDEX}; found: {FIRST}, {SECOND}" in message


@pytest.mark.parametrize(
    "name",
    [
        "../x.safetensors",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        "..\\x.safetensors",
        ".safetensors",
        "x.bin",
        "a\0.safetensors",
        "a\n.safetensors",
        "",
        3,
        None,
        [FIRST],
    ],
)
def test_index_can_name_only_files_beside_it(folder: Path, name: object) -> None:
    write_index(folder, {"a": name, "b": SECOND, "c": SECOND})
    assert refusal(folder).startswith(f"{INDEX}: tensor 'a' is said to be in ")


@pytest.mark.parametrize("weight_map", [None, [], {}, "x"])
def test_index_without_a_weight_map_is_refused(folder: Path, weight_map: object) -> None:
    write_index(folder, weight_map)
    assert refusal(folder) == f"{INDEX}: no 'weight_map' of tensor names to file names"


def test_index_with_a_tensor_listed_twice_is_refused(folder: Path) -> None:
    (folder / INDEX).write_text(f'{{"weight_map": {{"a": "{FIRST}", "a": "{SECOND}"}}}}')
    assert refusal(folder) == f"{INDEX}: key 'a' stands twice in one JSON object"


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1, "a": 2}', "{'a': 1}"])
def test_broken_config_is_refused(folder: Path, content: str) -> None:
    (folder / "config.json").write_text(content)
    assert refusal(folder).startswith("config.json: ")


def test_infinity_is_a_value_of_real_configs(folder: Path) -> None:
    (folder / "config.json").write_text('{"time_step_limit": [0.0, Infinity]}')
    assert read_safetensors(folder).config == {"time_step_limit": [0.0, float("inf")]}


def test_huge_config_is_refused_unread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_file, "MAX_JSON_BYTES", 10)
    write_index(folder, {})
    assert "bytes of JSON, expected at most 10" in refusal(folder)


def test_missing_path_is_refused(tmp_path: Path) -> None:
    assert "none: cannot be opened: No such file" in refusal(tmp_path / "none")
