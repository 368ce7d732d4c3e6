"""`junto chat` through a pipe: turns, commands, errors and what goes where."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import junto
from junto.chat.events import Event
from junto.cli import main
from junto.cli.chat.commands import COMMANDS
from junto.cli.chat.loop import Chat
from junto.cli.chat.screen import PlainScreen
from junto.cli.chat.session import Session
from junto.cli.chat.settings import Settings
from junto.errors import RequestError
from tests.chat.vocabularies import tiny_tokenizer, unknown_tokenizer
from tests.cli.fake_model import FakeModel, talking_model

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def talk(patch: Patch, model: FakeModel, script: str | bytes, *options: str) -> int:
    """Run a chat on lines of input and give its exit code."""
    patch.setattr(junto, "load", model.load)
    data = script.encode() if isinstance(script, str) else script
    patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return main(["chat", "m.gguf", *options])


def prompt_of(model: FakeModel, turn: int) -> str:
    return tiny_tokenizer().decode(model.asked[turn][0], special=True)


def test_each_line_is_a_turn_and_answers_are_plain(monkeypatch: Patch, capsys: Capture) -> None:
    model = talking_model()
    assert talk(monkeypatch, model, "one\n\ntwo\n", "--system", "S") == 0
    out, err = capsys.readouterr()
    assert out == "It is éver.\n" * 2
    assert err == "note: 2 tensors are not used\n"
    assert re.findall(r"<\|im_start\|>(\w+)\n(.*)<\|im_end\|>", prompt_of(model, 1)) == [
        ("system", "S"),
        ("user", "one"),
        ("assistant", "It is éver."),
        ("user", "two"),
    ]


def test_options_reach_the_model(monkeypatch: Patch) -> None:
    model = talking_model()
    words = (
        "-n 3 --temp 0.5 --top-k 7 --top-p 0.6 --min-p 0.1 --seed 9 --stop a --no-thinking"
        " --effort low --thinking-budget 4 --preserve-reasoning --n-ctx 99 --kv f32 --threads 3"
        " --no-cache"
    )
    assert talk(monkeypatch, model, "x\n", *words.split()) == 0
    (_, loaded), (_, asked) = model.loaded[0], model.asked[0]
    assert (loaded["n_ctx"], loaded["kv"], loaded["n_threads"]) == (99, "f32", 3)
    assert loaded["keep_packed"] is False
    del asked["conversation"]
    assert asked == {
        "n_predict": 3,
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.6,
        "min_p": 0.1,
        "seed": 9,
        "stop": ("a",),
        "enable_thinking": False,
        "effort": "low",
        "thinking_budget": 4,
        "preserve_reasoning": True,
    }


def test_reasoning_stays_out_of_a_pipe(monkeypatch: Patch, capsys: Capture) -> None:
    pieces = [Event("reasoning", "hm"), "yes"]
    assert talk(monkeypatch, talking_model(pieces=pieces), "x\n") == 0
    assert capsys.readouterr().out == "yes\n"


def test_a_backslash_joins_lines_and_two_slashes_are_one(monkeypatch: Patch) -> None:
    model = talking_model()
    assert talk(monkeypatch, model, "a\\\nb\n//etc\n") == 0
    assert "user\na\nb<" in prompt_of(model, 0)
    assert "user\n/etc<" in prompt_of(model, 1)


def test_regen_and_edit_replace_the_last_turn(monkeypatch: Patch) -> None:
    model = talking_model()
    assert talk(monkeypatch, model, "one\n/regen\n/edit two\n") == 0
    assert prompt_of(model, 0) == prompt_of(model, 1)
    assert prompt_of(model, 2) == prompt_of(model, 0).replace("one", "two")


def test_system_and_settings_change_the_next_turn(monkeypatch: Patch, capsys: Capture) -> None:
    model = talking_model()
    script = "/system Be kind.\n/thinking off\n/effort high\nx\n/system -\n/thinking auto\nx\n"
    assert talk(monkeypatch, model, script) == 0
    assert prompt_of(model, 0).startswith("<|im_start|>system\nBe kind.<")
    assert prompt_of(model, 1).startswith("<|im_start|>user")
    settings = [(o["enable_thinking"], o["effort"]) for _, o in model.asked]
    assert settings == [(False, "high"), (None, "high")]
    assert "no system message\nthinking is auto\n" in capsys.readouterr().out


def test_clear_forgets_the_messages(monkeypatch: Patch) -> None:
    model = talking_model()
    assert talk(monkeypatch, model, "one\n/clear\none\n") == 0
    assert prompt_of(model, 0) == prompt_of(model, 1)


def test_tokens_and_stats_count(monkeypatch: Patch, capsys: Capture) -> None:
    assert talk(monkeypatch, talking_model(), "/stats\nx\n/tokens\n/stats\n") == 0
    out = capsys.readouterr().out
    assert out.startswith("no answer yet\n")
    assert re.search(r"^context \d+ of 4,096 \(1 %\), [\d,]+ left; 2 messages$", out, re.M)
    assert re.search(r"^all 1 answers: 4 tokens generated, \d+ read, 0 kept$", out, re.M)


def test_save_and_load(monkeypatch: Patch, capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    model = talking_model()
    assert talk(monkeypatch, model, f"one\n/save {path}\n", "--system", "S", "--effort", "low") == 0
    saved: dict[str, Any] = json.loads(path.read_text())
    assert [m["role"] for m in saved["messages"]] == ["system", "user", "assistant"]
    for script, options in ((f"/load {path}\ntwo\n", []), ("two\n", ["--load", str(path)])):
        model = talking_model()
        assert talk(monkeypatch, model, script, *options) == 0
        assert "system\nS<" in prompt_of(model, 0)
        assert "assistant\nIt is éver.<" in prompt_of(model, 0)
        assert model.asked[0][1]["effort"] == "low"
    assert "[user] one\n[assistant] It is éver.\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("/nope", "error: no command /nope; /help lists them"),
        ("/regen", "error: nothing was asked yet"),
        ("/edit", "error: nothing was asked yet"),
        ("/save", "error: /save needs the name of a file"),
        ("/save /nowhere/x.json", "error: /nowhere: no such folder"),
        ("/load /nowhere/x.json", "error: /nowhere/x.json"),
        ("/effort huge", "error: huge is none of: low, medium, high, auto"),
        ("/reasoning maybe", "error: maybe is none of: on, off"),
    ],
)
def test_errors_are_one_line_and_the_chat_goes_on(
    line: str, text: str, monkeypatch: Patch, capsys: Capture
) -> None:
    assert talk(monkeypatch, talking_model(), f"{line}\nx\n") == 1
    out, err = capsys.readouterr()
    assert out == "It is éver.\n"
    assert text in err
    assert len(err.splitlines()) == 2


def test_bytes_that_are_not_utf8_cost_one_turn(monkeypatch: Patch, capsys: Capture) -> None:
    model = talking_model()
    assert talk(monkeypatch, model, b"a\xff\nx\n") == 1
    assert len(model.asked) == 1
    assert "byte 1 of a line is not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("error", [RequestError("too\nlong"), MemoryError()])
def test_a_failed_answer_leaves_the_messages_as_they_were(
    error: Exception, monkeypatch: Patch, capsys: Capture
) -> None:
    model = talking_model(error=error, fails_after=2)
    assert talk(monkeypatch, model, "one\ntwo\n") == 1
    assert "one" not in prompt_of(model, 1)
    assert [line[:6] for line in capsys.readouterr().err.splitlines()[1:]] == ["error:"] * 2


def test_ctrl_c_ends_a_script(monkeypatch: Patch, capsys: Capture) -> None:
    model = talking_model(error=KeyboardInterrupt(), fails_after=2)
    assert talk(monkeypatch, model, "one\ntwo\n") == 130
    assert capsys.readouterr().out == "It is é\n"
    assert len(model.asked) == 1


def test_calls_of_functions_and_a_full_context_are_told(
    monkeypatch: Patch, capsys: Capture
) -> None:
    model = talking_model(pieces=["x", Event("tool_call", name="look")], ends_by="length")
    model.n_ctx = 30
    assert talk(monkeypatch, model, "one\ntwo\n") == 0
    err = capsys.readouterr().err
    for part in ("nobody offers: look", "the answer was cut", "nearly full; /clear begins anew"):
        assert part in err
    assert "look" not in prompt_of(model, 1)


def test_a_demo_says_what_it_cannot_do(monkeypatch: Patch, capsys: Capture) -> None:
    model = talking_model()
    model.is_demo = True
    assert talk(monkeypatch, model, "") == 0
    assert "tiny demo" in (err := capsys.readouterr().err)
    assert "junto pull gpt-oss:20b" in err


def test_a_file_without_template_cannot_chat(monkeypatch: Patch, capsys: Capture) -> None:
    model = FakeModel(unknown_tokenizer(tokenizer__chat_template=None))
    assert talk(monkeypatch, model, "x\n") == 1
    assert "no chat template in the file; use junto run --raw" in capsys.readouterr().err


def test_help_names_every_command_and_nothing_follows_exit(
    monkeypatch: Patch, capsys: Capture
) -> None:
    model = talking_model()
    assert talk(monkeypatch, model, "/help\n/exit\nx\n") == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in COMMANDS)
    assert model.asked == []


class Keys:
    """A reader whose person presses Ctrl-C between two turns."""

    stays = True

    def __init__(self) -> None:
        self._turns: list[str | None] = ["one", "", "two", None]

    def read(self, draft: str = "") -> str | None:
        text = self._turns.pop(0)
        if text == "":
            raise KeyboardInterrupt
        return text


def test_ctrl_c_a_moment_too_late_ends_no_chat(capsys: Capture) -> None:
    model: Any = talking_model()
    session = Session(model, Settings())
    Chat(session, PlainScreen(is_terminal=True), Keys()).run()
    assert [m["content"] for m in session.messages[::2]] == ["one", "two"]
