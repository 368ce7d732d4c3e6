"""What a terminal shows until the first token is there."""

import io
import sys
import time
from pathlib import Path
from typing import cast

import pytest

import junto
from junto.cli import waiting_line as module
from junto.cli.waiting_line import awaited, waiting_line
from junto.model import Model
from junto.ops.cpu import backlog
from tests.cli.fake_model import FakeModel
from tests.tiny.models import MIXES

MODEL = cast(Model, FakeModel())


class Terminal(io.StringIO):
    """Standard error that somebody watches."""

    def isatty(self) -> bool:
        return True


def watch(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Become watched; in a test itself, since capturing begins anew after its fixtures."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "awaited", lambda model, n_prompt: f"{n_prompt} tokens to read")
    return made


def test_a_wait_is_told_until_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watch(monkeypatch)
    with waiting_line(MODEL, 7) as came:
        deadline = time.monotonic() + 30
        while "7 tokens to read" not in terminal.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        came()
        shown = terminal.getvalue()
        came()
    assert terminal.getvalue() == shown, "nothing is written beside the answer"
    assert shown.endswith("\x1b[2K"), "the line is gone before the answer begins"


def test_a_quick_answer_needs_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watch(monkeypatch)
    monkeypatch.setattr(module, "PATIENCE_S", 3600)
    with waiting_line(MODEL, 7) as came:
        came()
    assert "tokens" not in terminal.getvalue()


def test_nothing_is_written_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting_line(MODEL, 7) as came:
        came()
    assert capsys.readouterr().err == ""


def test_it_says_how_far_the_prompt_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gguf"
    MIXES["qwen35moe_q4_k"].write_gguf(path)
    model = junto.load(path, backend="reference")
    slot = model.runner.cache.open()
    model.runner.step([(slot, [3, 4, 5])])
    monkeypatch.setattr(backlog, "n_bytes_to_come", lambda: 0)
    assert awaited(model, 8) == "reading the prompt: 3 of 8 tokens"
    monkeypatch.setattr(backlog, "n_bytes_to_come", lambda: 9_840_000_000)
    assert awaited(model, 8).endswith("; up to 9.8 GB of experts to pack")
