"""The command `junto`: its subcommands, and how errors leave the program.

An error that someone can mend is one line on standard error and an exit code of `ExitCode`. A
traceback comes only with --debug.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated

import typer

from junto.cli.bench import bench
from junto.cli.cache import cache
from junto.cli.chat import chat
from junto.cli.convert import convert
from junto.cli.doctor import doctor
from junto.cli.exit_code import ExitCode
from junto.cli.inspect import inspect
from junto.cli.list import list_models
from junto.cli.pipe import forget_stdout
from junto.cli.pull import pull
from junto.cli.rm import rm
from junto.cli.run import run
from junto.cli.verify import verify
from junto.errors import JuntoError

# typer carries click inside since 0.16 and depended on it before; this is the error of either.
UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]

EXAMPLES = """
Run language models from the files people already have.

Examples:

    junto run -p "Why is the sky blue?"

    junto run model.gguf -f question.txt --temp 0

    junto chat model.gguf

    junto run --help
"""

app = typer.Typer(
    name="junto",
    help=EXAMPLES,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("run")(run)
app.command("chat")(chat)
app.command("pull")(pull)
app.command("list")(list_models)
app.command("rm")(rm)
app.command("convert")(convert)
app.command("inspect")(inspect)
app.command("bench")(bench)
app.command("verify")(verify)
app.command("doctor")(doctor)
app.add_typer(cache)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"junto {version('junto')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Options of the whole program; the text of --help is EXAMPLES."""


@dataclass(slots=True)
class Settings:
    """What a command tells `main`: whether errors show where they arose."""

    debug: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (sys.argv by default) and return the exit code."""
    settings = Settings()
    command = typer.main.get_command(app)
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = command.main(words or ["--help"], "junto", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
        return ExitCode.BROKEN_PIPE
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:
        if settings.debug:
            traceback.print_exc()
        print(f"junto: error: {message(error)}", file=sys.stderr)
        return ExitCode.USAGE if isinstance(error, UsageProblem) else ExitCode.ERROR
    return code if isinstance(code, int) else ExitCode.DONE


def message(error: Exception) -> str:
    """One line that says what went wrong and what to do."""
    if isinstance(error, JuntoError):
        text = str(error)
    elif isinstance(error, UsageProblem) and hasattr(error, "format_message"):
        text = f"{error.format_message()} (see junto --help)"
    elif isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        text = f"{where}{error.strerror.lower()}; check the path"
    elif isinstance(error, MemoryError):
        text = "out of memory; try a smaller --n-ctx or a smaller model"
    else:
        text = f"{type(error).__name__}: {error} (a fault of junto; --debug shows where)"
    return " ".join(text.split())
