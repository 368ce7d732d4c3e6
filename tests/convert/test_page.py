"""The commands of docs/convert.md run, in a folder that holds the files they name."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from junto.cli import main
from junto.convert.types import RECIPES
from junto.formats.gguf_writer import OutTensor, write_gguf
from junto.formats.tensor import Tensor
from tests.convert.folders import write_folder
from tests.data_dir import REPOSITORY
from tests.tiny.models import TINY

PAGE = (REPOSITORY / "docs" / "convert.md").read_text()


def test_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(TINY["qwen35moe_wide"], tmp_path / "checkpoint")
    write_folder(TINY["gpt_oss_mxfp4"], tmp_path / "gpt-oss")
    importance = Tensor.from_array("token_embd.weight.in_sum2", np.ones((1, 256), np.float32), "x")
    counts = Tensor.from_array("token_embd.weight.counts", np.ones((1, 1), np.float32), "x")
    tensors = [OutTensor.copy(importance), OutTensor.copy(counts)]
    write_gguf(tmp_path / "imatrix.gguf", {"general.type": "imatrix"}, tensors)
    (tmp_path / "chat.jinja").write_text("{{ messages }}")
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^    junto (.+)$", PAGE, re.MULTILINE)
    assert len(commands) == 11
    for command in commands:
        assert main(shlex.split(command)) == 0, command


def test_every_type_is_on_the_page_and_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["convert", "--help"])
    shown = capsys.readouterr().out
    listed = re.search(r"`--type` is one of (.+)\.", PAGE)
    assert listed is not None
    assert set(listed[1].split()) == set(RECIPES)
    assert all(re.search(rf"\b{name}\b", shown) for name in RECIPES)
