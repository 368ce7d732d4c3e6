"""`junto run`: one prompt, one answer, written while it comes.

The model is imported inside the command, so that help is quick. What is written where is the
business of `answer_writer`.
"""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from junto.cli.answer_writer import AnswerWriter
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
from junto.cli.prompt_source import read_prompt
from junto.cli.waiting_line import waiting_line
from junto.errors import TextError

if TYPE_CHECKING:
    from junto.model import Model


def run(
    context: typer.Context,
    model: ModelPath = None,
    prompt: Annotated[
        str | None, typer.Option("-p", "--prompt", metavar="TEXT", help="The prompt.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="Read the prompt from a file; - is standard input."),
    ] = None,
    n_predict: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--n-predict",
            min=1,
            help="Most tokens to generate, reasoning included; if left out, until the answer ends"
            " (with --raw: 128).",
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
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as it is, without chat template.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object at the end, and nothing else.")
    ] = False,
    n_ctx: ContextSize = None,
    backend: BackendChosen = Backend.CPU,
    kv: KVChosen = KVType.AUTO,
    threads: Threads = None,
    no_cache: NoCache = False,
    debug: Debug = False,
) -> None:
    """Answer one prompt.

    The answer goes to standard output, everything else to standard error. Reasoning is shown dimmed
    before the answer on a terminal; into a file or a pipe goes the answer alone. --json holds both.

    Examples:

        junto run -p "Why is the sky blue?"

        junto run model.gguf -p "Once upon a time" --raw -n 200 --seed 7

        echo "Name three rivers." | junto run model.gguf --temp 0 --json
    """
    if context.obj is not None:
        context.obj.debug = debug
    asked = {"--system": system, "--thinking": thinking, "--effort": effort}
    _refuse_with_raw(raw, asked | {"--thinking-budget": thinking_budget})
    refuse_impossible(top_p, stop)
    text = read_prompt(prompt, file)
    start = time.perf_counter()
    loaded = open_model(model, backend, kv, n_ctx, threads, no_cache=no_cache)
    load_s = time.perf_counter() - start
    sampling = {"temperature": temp, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    options: dict[str, Any] = {**sampling, "stop": tuple(stop or ())}
    writer = AnswerWriter(loaded.name, load_s, as_json=as_json)
    try:
        if raw or not _can_chat(loaded, system):
            ids = loaded.text.prompt(text)
            pieces = loaded.generate(ids, n_predict=n_predict or 128, **options)
            with waiting_line(loaded, len(ids)) as came:
                writer.take_pieces(ids, pieces, came)
        else:
            reply = loaded.chat(
                _messages(text, system),
                n_predict=n_predict,
                enable_thinking=thinking,
                effort=effort.value if effort else None,
                thinking_budget=thinking_budget,
                **options,
            )
            with waiting_line(loaded, len(reply.prompt_ids)) as came:
                writer.take_reply(reply, came)
        writer.report()
        keep_packed(loaded)
    except BrokenPipeError:
        forget_stdout()
        raise typer.Exit(ExitCode.BROKEN_PIPE) from None
    if writer.finish_reason == "interrupted":
        raise typer.Exit(ExitCode.INTERRUPTED)


def _refuse_with_raw(raw: bool, asked: dict[str, object]) -> None:
    for option, value in asked.items():
        if raw and value is not None:
            raise typer.BadParameter(f"{option} needs the chat template; leave --raw out")


def _messages(text: str, system: str | None) -> list[dict[str, str]]:
    user = {"role": "user", "content": text}
    return [user] if system is None else [{"role": "system", "content": system}, user]


def _can_chat(model: "Model", system: str | None) -> bool:
    """Whether the file can; says what happens instead."""
    if model.text.can_chat:
        return True
    if system is not None:
        raise TextError(f"{model.name}: no chat template in the file, so no --system")
    print(
        "note: no chat template in the file; the prompt is continued as it is (--raw)",
        file=sys.stderr,
    )
    return False
