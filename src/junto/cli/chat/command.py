"""The command `junto chat`: its options, and which reader and screen fit the place it runs in."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from junto.cli.exit_code import ExitCode
from junto.cli.opening import keep_packed, open_model
from junto.cli.options import (
    Backend,
    BackendChosen,
    ContextSize,
    Debug,
    EffortWanted,
    KVChosen,
    KVType,
    MinP,
    ModelPath,
    NoCache,
    Seed,
    Stop,
    System,
    Temperature,
    Thinking,
    ThinkingBudget,
    Threads,
    TopK,
    TopP,
    refuse_impossible,
)
from junto.cli.pipe import forget_stdout
from junto.errors import TextError

if TYPE_CHECKING:
    from junto.cli.chat.loop import Chat
    from junto.cli.chat.reading import Reader
    from junto.cli.chat.screen import Screen
    from junto.model import Model


def chat(
    context: typer.Context,
    model: ModelPath = None,
    load: Annotated[
        Path | None,
        typer.Option("--load", metavar="FILE", help="Go on with a conversation that /save wrote."),
    ] = None,
    hide_reasoning: Annotated[
        bool, typer.Option("--hide-reasoning", help="Show answers alone.")
    ] = False,
    preserve_reasoning: Annotated[
        bool,
        typer.Option(
            "--preserve-reasoning",
            help="Keep reasoning of earlier answers in the conversation: it takes room, and nothing"
            " has to be read twice.",
        ),
    ] = False,
    n_predict: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--n-predict",
            min=1,
            help="Most tokens of an answer, reasoning included; until it ends if left out.",
            show_default=False,
        ),
    ] = None,
    temp: Temperature = 0.8,
    top_k: TopK = 40,
    top_p: TopP = 0.95,
    min_p: MinP = 0.05,
    seed: Seed = None,
    stop: Stop = None,
    system: System = None,
    thinking: Thinking = None,
    effort: EffortWanted = None,
    thinking_budget: ThinkingBudget = None,
    n_ctx: ContextSize = None,
    backend: BackendChosen = Backend.CPU,
    kv: KVChosen = KVType.AUTO,
    threads: Threads = None,
    no_cache: NoCache = False,
    debug: Debug = False,
) -> None:
    """Talk with a model.

    On a terminal, /help lists the commands, Ctrl-C stops an answer and Ctrl-D leaves. Where input
    or output is a pipe, each line is a turn and the answers are plain text; a backslash at the end
    of a line joins it with the next.

    Examples:

        junto chat

        junto chat model.gguf --system "Answer in one sentence." --hide-reasoning

        printf 'Name a river.\\n/regen\\n/save river.json\\n' | junto chat model.gguf
    """
    from junto.cli.chat.loop import Chat
    from junto.cli.chat.session import Session
    from junto.cli.chat.settings import Settings

    if context.obj is not None:
        context.obj.debug = debug
    refuse_impossible(top_p, stop)
    loaded = open_model(model, backend, kv, n_ctx, threads, no_cache=no_cache)
    if not loaded.text.can_chat:
        raise TextError(f"{loaded.name}: no chat template in the file; use junto run --raw")
    settings = Settings(
        enable_thinking=thinking,
        effort=effort.value if effort else None,
        thinking_budget=thinking_budget,
        preserve_reasoning=preserve_reasoning,
        n_predict=n_predict,
        temperature=temp,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        stop=tuple(stop or ()),
    )
    session = Session(loaded, settings, system)
    if load is not None:
        session.load(load)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    talk = Chat(session, _screen(is_terminal, hide_reasoning), _reader(is_terminal))
    _greet(talk, loaded)
    _run(talk)
    keep_packed(loaded)
    if talk.n_failed and not is_terminal:
        raise typer.Exit(ExitCode.ERROR)


def _run(talk: "Chat") -> None:
    try:
        talk.run()
    except BrokenPipeError:
        forget_stdout()
        raise typer.Exit(ExitCode.BROKEN_PIPE) from None


def _screen(is_terminal: bool, hides_reasoning: bool) -> "Screen":
    from rich.console import Console

    from junto.cli.chat.screen import PlainScreen
    from junto.cli.chat.terminal import TerminalScreen

    if not is_terminal or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return PlainScreen(is_terminal=is_terminal, hides_reasoning=hides_reasoning)
    return TerminalScreen(Console(highlight=False), hides_reasoning=hides_reasoning)


def _reader(is_terminal: bool) -> "Reader":
    from junto.cli.chat.commands import COMMANDS
    from junto.cli.chat.reading import PipeReader

    if not is_terminal:
        return PipeReader()
    from junto.cli.chat.editor import Editor

    return Editor(COMMANDS)


def _greet(talk: "Chat", model: "Model") -> None:
    talk.screen.remark(f"{model.name} · context {model.n_ctx:,} tokens · /help lists commands")
    if model.is_demo:
        talk.screen.warn(
            f"{model.name} is a tiny demo: it shows that all works, but it knows almost nothing,"
            " cannot reason, and loses the thread; a real model comes with: junto pull gpt-oss:20b"
        )
