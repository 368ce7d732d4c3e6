"""Terminals to run a chat in: a bare pseudo-terminal, and tmux, which keeps what a person sees."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from tests.data_dir import REPOSITORY

PATIENCE_S = 60.0
CTRL_C, CTRL_D, ENTER, ALT_ENTER, UP = "\x03", "\x04", "\r", "\x1b\r", "\x1b[A"
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b.|\r")
N_COLUMN, N_LINE = 60, 14
# Set around the tests (readline does so behind os.environ), they would be believed first.
SIZE = {"COLUMNS": str(N_COLUMN), "LINES": str(N_LINE)}

# The first lines of a program, so that Ctrl-C in its terminal reaches it.
TAKES_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"


class Terminal(Protocol):
    """A chat that runs in a terminal."""

    def send(self, keys: str) -> None:
        """Press keys."""
        ...

    def text(self) -> str:
        """What was shown so far."""
        ...

    def exit_code(self, pressing: str = "") -> int:
        """Wait for the end, pressing keys until it comes: a prompt may not be there yet."""
        ...

    def close(self) -> None:
        """End it if it still runs."""
        ...


def wait_for(terminal: Terminal, text: str, times: int = 1) -> None:
    """Until a text was shown so many times; fails after a minute."""
    end = time.monotonic() + PATIENCE_S
    while terminal.text().count(text) < times:
        if time.monotonic() > end:
            pytest.fail(f"no {text!r} in a minute, but: {terminal.text()[-2000:]}")
        time.sleep(0.05)


class Pty:
    """A pseudo-terminal that nobody draws: its text is the stream without escape sequences."""

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        self._fd, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", N_LINE, N_COLUMN, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", TAKES_TERMINAL + program],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            # Nothing answers where the cursor is.
            env={
                **os.environ,
                **SIZE,
                "TERM": "xterm-256color",
                "PROMPT_TOOLKIT_NO_CPR": "1",
                **env,
            },
            cwd=REPOSITORY,
            start_new_session=True,
        )
        os.close(follower)
        self.raw = b""

    def send(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def text(self) -> str:
        self._read()
        return ESCAPES.sub("", self.raw.decode(errors="replace"))

    def _read(self) -> None:
        while select.select([self._fd], [], [], 0)[0]:
            try:
                data = os.read(self._fd, 65536)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            self.raw += data

    def exit_code(self, pressing: str = "") -> int:
        end = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < end:
            self.send(pressing)
            self._read()
            time.sleep(0.2)
        self._read()
        return self._process.wait(timeout=1)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        os.close(self._fd)


class Tmux:
    """A tmux window on a server of its own; its text is the window with all its history."""

    def __init__(self, program: str, env: Mapping[str, str], folder: Path) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        self._socket = folder / "tmux"
        self._code = folder / "code"
        script = folder / "chat.py"
        script.write_text(program)
        settings = " ".join(f"{name}={value}" for name, value in env.items())
        command = (
            f"env -u COLUMNS -u LINES {settings} PYTHONPATH={REPOSITORY} {sys.executable} {script}"
        )
        size = ["-x", str(N_COLUMN), "-y", str(N_LINE)]
        shell = f"cd {REPOSITORY}; {command}; echo $? > {self._code}; sleep 600"
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "chat", *size, shell)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def send(self, keys: str) -> None:
        if not keys:
            return
        codes = [f"{byte:02x}" for byte in keys.encode()]
        self._tmux("send-keys", "-t", "chat", "-H", *codes)

    def text(self) -> str:
        return self._tmux("capture-pane", "-t", "chat", "-p", "-J", "-S", "-")

    def exit_code(self, pressing: str = "") -> int:
        end = time.monotonic() + PATIENCE_S
        while not (self._code.exists() and self._code.read_text()) and time.monotonic() < end:
            self.send(pressing)
            time.sleep(0.2)
        return int(self._code.read_text())

    def close(self) -> None:
        self._tmux("kill-server")
