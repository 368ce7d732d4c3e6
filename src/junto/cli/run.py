"""`junto run`: one prompt, one answer, written while it comes.

The model is imported inside the command, so that help is quick. What is written where is the
business of `answer_writer`.
"""

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from junto.cli.answer_writer import AnswerWriter
from junto.cli.default_model import find_default_model
from junto.cli.exit_code import ExitCode
from junto.cli.loading_bar import loading_bar
from junto.cli.pipe import forget_stdout
from junto.cli.prompt_source import read_prompt
from junto.errors import TextError

if TYPE_CHECKING:
    from junto.model import Model


class Backend(StrEnum):
    """The backends of this build."""

    CPU = "cpu"
    REFERENCE = "reference"


class Effort(StrEnum):
    """How long to reason."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class KVType(StrEnum):
    """How keys and values may be held."""

    AUTO = "auto"
    F32 = "f32"
    F16 = "f16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"


def run(
    context: typer.Context,
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A GGUF file, a safetensors file or its folder; SmolLM2-135M if left out.",
            show_default=False,
        ),
    ] = None,
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
    temp: Annotated[
        float, typer.Option(min=0.0, max=100.0, help="Temperature; 0 takes the likeliest token.")
    ] = 0.8,
    top_k: Annotated[
        int, typer.Option(min=0, help="Choose among this many tokens; 0 means all.")
    ] = 40,
    top_p: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Choose among tokens of this joint probability.")
    ] = 0.95,
    min_p: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Least probability, relative to the likeliest.")
    ] = 0.05,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=2**64 - 1,
            help="The same seed gives the same answer; random if left out.",
            show_default=False,
        ),
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="End before this text; may be given several times."),
    ] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A system message before the prompt.")
    ] = None,
    thinking: Annotated[
        bool | None,
        typer.Option(
            "--thinking/--no-thinking",
            help="Ask for reasoning, or for none; the model's own way if left out.",
            show_default=False,
        ),
    ] = None,
    effort: Annotated[
        Effort | None,
        typer.Option(help="How long to reason, for models that know it.", show_default=False),
    ] = None,
    thinking_budget: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Most tokens of reasoning; then it is closed and the answer goes on.",
            show_default=False,
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as it is, without chat template.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object at the end, and nothing else.")
    ] = False,
    n_ctx: Annotated[
        int | None,
        typer.Option(min=1, help="Most tokens of prompt and answer; the model's own if left out."),
    ] = None,
    backend: Annotated[
        Backend, typer.Option(help="What computes: fast kernels, or plain NumPy.")
    ] = Backend.CPU,
    kv: Annotated[
        KVType,
        typer.Option(help="How keys and values are held; q8_0 and q4_0 keep the near ones f16."),
    ] = KVType.AUTO,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of the cpu backend; all processors if left out."),
    ] = None,
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Keep no packed weights for the next start."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
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
    if top_p == 0.0:
        raise typer.BadParameter("--top-p must be above 0")
    if "" in (stop or ()):
        raise typer.BadParameter("--stop must not be empty")
    text = read_prompt(prompt, file)
    start = time.perf_counter()
    loaded = _load(
        model or find_default_model(), backend, kv, n_ctx, threads, keep_packed=not no_cache
    )
    load_s = time.perf_counter() - start
    sampling = {"temperature": temp, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    options: dict[str, Any] = {**sampling, "stop": tuple(stop or ())}
    writer = AnswerWriter(loaded.name, load_s, as_json=as_json)
    try:
        if raw or not _can_chat(loaded, system):
            ids = loaded.text.prompt(text)
            writer.take_pieces(ids, loaded.generate(ids, n_predict=n_predict or 128, **options))
        else:
            reply = loaded.chat(
                _messages(text, system),
                n_predict=n_predict,
                enable_thinking=thinking,
                effort=effort.value if effort else None,
                thinking_budget=thinking_budget,
                **options,
            )
            writer.take_reply(reply)
        writer.report()
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


def _load(
    path: Path,
    backend: Backend,
    kv: KVType,
    n_ctx: int | None,
    threads: int | None,
    *,
    keep_packed: bool,
) -> "Model":
    import junto

    with loading_bar(path.name) as progress:
        model = junto.load(
            path,
            backend=backend.value,
            kv=kv.value,
            n_ctx=n_ctx,
            n_threads=threads,
            keep_packed=keep_packed,
            progress=progress,
        )
    for note in model.notes:
        print(f"note: {note}", file=sys.stderr)
    return model


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
