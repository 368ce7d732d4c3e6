"""The examples of the documentation run, and give what the page says.

Each section is one session, in a folder that holds the files it names.
"""

import doctest
import re
from pathlib import Path

import pytest

from tests.chat.vocabularies import unpacked
from tests.data_dir import REPOSITORY
from tests.tiny import smollm2

PAGE = REPOSITORY / "docs" / "python.md"
VOCABULARIES = ("qwen35moe-vocab.gguf", "gpt-oss-vocab.gguf")


def sections() -> dict[str, str]:
    """The Python examples of each section of the page by its heading."""
    parts = re.split(r"^## (.+)\n", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return {
        title: "\n".join(re.findall(r"^```python\n(.*?)^```", body, re.MULTILINE | re.DOTALL))
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def place_files(examples: str, folder: Path) -> None:
    """Put the files that the examples name into the folder; skips where there is none of them."""
    for name in VOCABULARIES:
        if name in examples:
            unpacked(f"tokenizers/{name}.xz", folder)
    if '"model.gguf"' in examples:
        (folder / "model.gguf").symlink_to(smollm2.model_path())


@pytest.mark.parametrize("title", sections())
def test_examples_give_what_the_page_says(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = sections()[title]
    place_files(examples, tmp_path)
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(examples, {}, title, str(PAGE), 0)
    assert test.examples
    told: list[str] = []
    doctest.DocTestRunner().run(test, out=told.append)
    assert not told, "".join(told)


def test_every_python_block_of_the_page_is_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    assert all(block.startswith(">>> ") for block in blocks)
