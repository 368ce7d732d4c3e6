"""The models in the box: the one that runs when none is named, and both by name."""

import json
from pathlib import Path

import pytest

from junto.cli import main
from junto.cli.default_model import chosen_model
from junto.errors import LibraryError
from junto.library import demos

BOTH = [demos.PREFIX + name for name in demos.NAMES]


def test_without_a_name_the_first_one_runs() -> None:
    assert chosen_model(None) == demos.path_of("qwen35moe")
    assert chosen_model(Path("demo:")) == demos.path_of("qwen35moe")


@pytest.mark.parametrize("name", demos.NAMES)
def test_each_is_found_by_its_name_in_any_case(name: str) -> None:
    path = chosen_model(Path(f"demo:{name}"))
    assert path == chosen_model(Path(f"Demo:{name.upper()}"))
    assert path.is_file()
    assert path.stat().st_size <= 6_000_000


def test_a_file_of_that_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo:qwen35moe").write_bytes(b"GGUF")
    assert chosen_model(Path("demo:qwen35moe")) == Path("demo:qwen35moe")


def test_another_name_is_told_which_there_are() -> None:
    with pytest.raises(LibraryError, match=f"there are {', '.join(BOTH)}"):
        chosen_model(Path("demo:llama"))


def test_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = {model["name"]: model for model in json.loads(capsys.readouterr().out)}
    assert set(BOTH) <= set(listed)
    assert all(listed[name]["origin"] == "junto" for name in BOTH)


@pytest.mark.parametrize("name", BOTH)
def test_they_can_be_neither_fetched_nor_removed(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull", name]) == 0
    assert Path(capsys.readouterr().out.strip()).is_file()
    assert main(["rm", name]) == 1
    assert "stays with it" in capsys.readouterr().err


@pytest.mark.parametrize("model", [[], *([name] for name in BOTH)])
def test_they_answer(model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["-p", "Tell me a story about a fox.", "-n", "60", "--seed", "1", "--no-thinking"]
    assert main(["run", *model, *asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["text"].split()) > 20
