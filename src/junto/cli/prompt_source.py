"""Where the text of a prompt comes from: an option, a file or standard input."""

import sys
from pathlib import Path

import typer

from junto.errors import TextError


def read_prompt(text: str | None, file: Path | None) -> str:
    """The prompt; a newline at the end of a file or of standard input does not count.

    typer.BadParameter where two sources are given, or none; TextError where a file is not UTF-8.
    """
    if text is not None and file is not None:
        raise typer.BadParameter("give -p or -f, not both")
    if text is not None:
        return text
    if file is not None and str(file) != "-":
        return _decoded(file.read_bytes(), str(file))
    if file is None and sys.stdin.isatty():
        raise typer.BadParameter("no prompt: give -p TEXT, -f FILE or standard input")
    return _decoded(sys.stdin.buffer.read(), "standard input")


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise TextError(
            f"{source}: byte {error.start} is not UTF-8; convert the text first"
        ) from error
