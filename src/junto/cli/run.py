"""`junto run`: one prompt, one answer, written while it comes.

The answer alone goes to standard output; notes and figures go to standard error. The model is
imported inside the command, so that help is quick.
"""

import json
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from junto.cli.default_model import find_default_model
from junto.cli.exit_code import ExitCode
from junto.cli.pipe import forget_stdout
from junto.cli.prompt_source import read_prompt
from junto.cli.timing import Timing
from junto.errors import TextError

if TYPE_CHECKING:
    from junto.model import Model, Piece


class Backend(StrEnum):
    """The backends of this build."""

    CPU = "cpu"
    REFERENCE = "reference"


class KVType(StrEnum):
    """How keys and values may be held."""

    AUTO = "auto"
    F16 = "f16"
    F32 = "f32"


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
        int, typer.Option("-n", "--n-predict", min=1, help="Most tokens to generate.")
    ] = 128,
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
    kv: Annotated[KVType, typer.Option(help="How keys and values are held.")] = KVType.AUTO,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of the cpu backend; all processors if left out."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Answer one prompt.

    Examples:

        junto run -p "Why is the sky blue?"

        junto run model.gguf -p "Once upon a time" --raw -n 200 --seed 7

        echo "Name three rivers." | junto run model.gguf --temp 0 --json
    """
    if context.obj is not None:
        context.obj.debug = debug
    if raw and system is not None:
        raise typer.BadParameter("--system needs the chat template; leave --raw out")
    if top_p == 0.0:
        raise typer.BadParameter("--top-p must be above 0")
    if "" in (stop or ()):
        raise typer.BadParameter("--stop must not be empty")
    text = read_prompt(prompt, file)
    start = time.perf_counter()
    loaded = _load(model or find_default_model(), backend, kv, n_ctx, threads)
    ids = _prompt_ids(loaded, text, system, raw)
    timing = Timing(n_prompt=len(ids), load_s=time.perf_counter() - start)
    pieces = loaded.generate(
        ids,
        n_predict=n_predict,
        temperature=temp,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
        stop=tuple(stop or ()),
    )
    answer = _Answer(loaded.name, timing, streams=not as_json)
    try:
        answer.take(pieces)
        answer.report()
    except BrokenPipeError:
        forget_stdout()
        raise typer.Exit(ExitCode.BROKEN_PIPE) from None
    if answer.finish_reason == "interrupted":
        raise typer.Exit(ExitCode.INTERRUPTED)


def _load(
    path: Path, backend: Backend, kv: KVType, n_ctx: int | None, threads: int | None
) -> "Model":
    import junto

    model = junto.load(path, backend=backend.value, kv=kv.value, n_ctx=n_ctx, n_threads=threads)
    for note in model.notes:
        print(f"note: {note}", file=sys.stderr)
    return model


def _prompt_ids(model: "Model", text: str, system: str | None, raw: bool) -> list[int]:
    from junto.chat.prompt import prompt_ids

    tokenizer = model.tokenizer
    if tokenizer is None:
        raise TextError(f"{model.name}: no tokenizer in the file; choose one that holds it")
    if not raw and tokenizer.chat_template is not None:
        messages = [{"role": "user", "content": text}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return prompt_ids(tokenizer, messages)
    if system is not None:
        raise TextError(f"{model.name}: no chat template in the file, so no --system")
    if not raw:
        print(
            "note: no chat template in the file; the prompt is continued as it is (--raw)",
            file=sys.stderr,
        )
    ids = tokenizer.encode(text, special=False)
    return [tokenizer.bos_id, *ids] if tokenizer.add_bos and tokenizer.bos_id is not None else ids


class _Answer:
    """What has come of an answer, and its way to the terminal."""

    def __init__(self, model_name: str, timing: Timing, *, streams: bool) -> None:
        self._model_name = model_name
        self._timing = timing
        self._streams = streams
        self._text = ""
        self._token_ids: list[int] = []
        self.finish_reason: str | None = None

    def take(self, pieces: "Iterator[Piece]") -> None:
        """Write pieces while they come; Ctrl-C ends the answer where it stands."""
        try:
            for piece in pieces:
                self._timing.token()
                self._token_ids.append(piece.token_id)
                self._text += piece
                self.finish_reason = piece.finish_reason
                self._write(piece)
        except KeyboardInterrupt:
            self.finish_reason = "interrupted"

    def _write(self, piece: str) -> None:
        if self._streams and piece:
            sys.stdout.write(piece)
            sys.stdout.flush()

    def report(self) -> None:
        """End the text and give the figures."""
        if not self._streams:
            print(json.dumps(self.as_json(), ensure_ascii=False), flush=True)
            return
        if not self._text.endswith("\n"):
            print(flush=True)
        print(self._timing.line(), file=sys.stderr)

    def as_json(self) -> dict[str, Any]:
        """The whole run as one object."""
        return {
            "model": self._model_name,
            "text": self._text,
            "token_ids": self._token_ids,
            "n_prompt": self._timing.n_prompt,
            "n_generated": self._timing.n_generated,
            "finish_reason": self.finish_reason,
            "timings": self._timing.as_json(),
        }
