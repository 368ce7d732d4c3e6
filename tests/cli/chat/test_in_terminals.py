"""`junto chat` as a person has it: keys in, a screen out, in a pseudo-terminal and in tmux."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.chat.terminals import (
    ALT_ENTER,
    CTRL_C,
    CTRL_D,
    ENTER,
    UP,
    Pty,
    Terminal,
    Tmux,
    wait_for,
)

# An answer with prose, code, and a last paragraph that outgrows the window.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import junto
from junto.chat.events import Event
from junto.cli import main
from tests.cli.fake_model import talking_model

pieces = [Event("reasoning", "Let me see."), "Some **bold** text."]
pieces += ["\\n\\n```py\\na = 1\\n", "```\\n\\n"]
pieces += [f"w{n} " for n in range(%d)]
junto.load = talking_model(pieces=pieces, pause_s=%f).load
sys.exit(main(["chat", "m.gguf"]))
"""
SHORT, LONG = PROGRAM % (300, 0.001), PROGRAM % (100_000, 0.01)

Start = Callable[..., Terminal]


@pytest.fixture(params=["pty", "tmux"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts programs in the terminal under test, with a folder for their state."""
    started: list[Terminal] = []

    def begin(program: str) -> Terminal:
        env = {"XDG_STATE_HOME": str(tmp_path)}
        is_pty = request.param == "pty"
        started.append(Pty(program, env) if is_pty else Tmux(program, env, tmp_path))
        return started[-1]

    yield begin
    for terminal in started:
        terminal.close()


def test_a_conversation(start: Start, tmp_path: Path) -> None:
    chat = start(LONG)
    wait_for(chat, "/help lists commands")
    chat.send("hello" + ALT_ENTER + "you" + ENTER)
    wait_for(chat, "w20 ")
    chat.send(CTRL_C)
    wait_for(chat, "[stopped; what came stays in the conversation]")
    wait_for(chat, "context ", 2)
    chat.send("/stats" + ENTER)
    wait_for(chat, "all 1 answers: ")
    chat.send("/edit" + ENTER)
    wait_for(chat, "you", 2)
    chat.send(" all" + ENTER)
    wait_for(chat, "context ", 3)
    wait_for(chat, "Some bold text.", 2)
    chat.send(CTRL_C)
    wait_for(chat, "[stopped", 2)
    path = tmp_path / "chat.json"
    chat.send(f"/save {path}" + ENTER)
    wait_for(chat, "saved 2 messages")
    question, answer = json.loads(path.read_text())["messages"]
    assert question == {"role": "user", "content": "hello\nyou all"}
    assert answer["interrupted"] is True
    assert answer["reasoning_content"] == "Let me see."
    chat.send(CTRL_C)
    wait_for(chat, "(Ctrl-D or /exit leaves)")
    assert chat.exit_code(pressing=CTRL_D) == 0


def test_prompts_are_remembered_for_this_user_alone(start: Start, tmp_path: Path) -> None:
    chat = start(SHORT)
    wait_for(chat, "/help lists commands")
    chat.send("/exit" + ENTER)
    assert chat.exit_code() == 0
    history = tmp_path / "junto" / "chat_history"
    assert "+/exit" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_earlier_prompts_come_back_with_the_arrow_keys(tmp_path: Path) -> None:
    (tmp_path / "junto").mkdir()
    (tmp_path / "junto" / "chat_history").write_text("\n# then\n+/exit\n")
    chat = Pty(SHORT, {"XDG_STATE_HOME": str(tmp_path)})
    try:
        wait_for(chat, "/help lists commands")
        wait_for(chat, ">")
        while "/exit" not in chat.text():  # the file is read beside the first prompt
            chat.send(UP)
            time.sleep(0.2)
        chat.send(ENTER)
        assert chat.exit_code() == 0
    finally:
        chat.close()


def test_the_scrollback_holds_each_word_once(tmp_path: Path) -> None:
    """What grows is drawn many times, in a window that it outgrows, and leaves no trace."""
    chat = Tmux(SHORT, {"XDG_STATE_HOME": str(tmp_path)}, tmp_path)
    try:
        wait_for(chat, "/help lists commands")
        chat.send("hello" + ENTER)
        wait_for(chat, "tokens/s")
        text = chat.text()
        assert re.findall(r"\bw(\d+)\b", text) == [str(n) for n in range(300)]
        shown = [line.rstrip() for line in text.splitlines()]
        begin = shown.index("> hello") + 1
        assert shown[begin : begin + 8] == [
            "Let me see.",
            "",
            "Some bold text.",
            "",
            "```py",
            "a = 1",
            "```",
            "",
        ]
        assert "reading…" not in text
    finally:
        chat.close()


def test_a_dumb_terminal_gets_plain_text(tmp_path: Path) -> None:
    chat = Pty(SHORT, {"XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"})
    try:
        wait_for(chat, "/help lists commands")
        chat.send("hello" + ENTER)
        wait_for(chat, "tokens/s")
        answer = chat.raw.split(b"[reasoning] ")[1].split(b"w1 ")[0]
        assert (
            answer
            == b"Let me see.\r\n\r\nSome **bold** text.\r\n\r\n```py\r\na = 1\r\n```\r\n\r\nw0 "
        )
        assert chat.exit_code(pressing=CTRL_D) == 0
    finally:
        chat.close()
