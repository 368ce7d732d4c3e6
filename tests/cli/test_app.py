"""The program as a whole: help, version, and how it ends as a process."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from junto.cli import main
from junto.cli.app import app
from tests.data_dir import REPOSITORY

# A process whose model is fake; it says when it has begun to write.
# Tests that run in the background of a shell inherit an ignored SIGINT; a terminal's do not.
FAKE_PROGRAM = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import junto
from junto.cli import main
from tests.cli.fake_model import talking_model

junto.load = talking_model(pieces=["word "] * 2000, pause_s=0.005).load
sys.exit(main(["run", "m.gguf", "-p", "x"]))
"""


def test_help_lists_what_exists() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    lines = result.output.split("Commands:")[1].splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "] == [
        "run",
        "chat",
        "pull",
        "list",
        "rm",
        "convert",
        "inspect",
        "bench",
        "verify",
        "doctor",
        "cache",
    ]
    assert 'junto run -p "Why is the sky blue?"' in result.output


def test_help_of_run_has_examples_and_every_option() -> None:
    result = CliRunner().invoke(app, ["run", "--help"])
    assert result.exit_code == 0
    assert "--raw -n 200 --seed 7" in result.output
    options = (
        "--prompt --file --n-predict --temp --top-k --top-p --min-p --seed --stop --system --raw"
        " --thinking --effort --thinking-budget"
        " --json --n-ctx --backend --kv --threads --no-cache --debug"
    )
    for option in options.split():
        assert option in result.output


def test_help_of_chat_has_examples_and_its_options() -> None:
    result = CliRunner().invoke(app, ["chat", "--help"])
    assert result.exit_code == 0
    assert "/save river.json" in result.output
    for option in ("--load", "--hide-reasoning", "--preserve-reasoning", "--system", "--n-ctx"):
        assert option in result.output


def test_the_shell_completes_commands() -> None:
    """As the script of `junto --install-completion` asks for it."""
    asked = {"_JUNTO_COMPLETE": "complete_bash", "COMP_WORDS": "junto ver", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from junto.cli import main; main()"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["verify"]


def test_no_words_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("Usage: junto ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"junto {version('junto')}\n"


def test_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "junto", "run", "nowhere.gguf", "-p", "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("junto: error: nowhere.gguf: ")
    assert done.stderr.count("\n") == 1


def fake_process() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", FAKE_PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPOSITORY,
    )


def test_ctrl_c_ends_the_process_with_130() -> None:
    process = fake_process()
    assert process.stdout is not None
    assert process.stdout.read(10) == b"word word "
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out.endswith(b"\n")
    assert b"Traceback" not in err
    assert b"tokens/s" in err


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    process = fake_process()
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(5) == b"word "
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == b"note: 2 tensors are not used\n"
    process.stderr.close()
