"""Options that several commands share, each declared once with its type, name and help."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


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


ModelPath = Annotated[
    Path | None,
    typer.Argument(
        help="A GGUF file, a folder of safetensors, or a name (see junto list); the small one in"
        " the box (demo:qwen35moe) if left out.",
        show_default=False,
    ),
]
Temperature = Annotated[
    float, typer.Option(min=0.0, max=100.0, help="Temperature; 0 takes the likeliest token.")
]
TopK = Annotated[int, typer.Option(min=0, help="Choose among this many tokens; 0 means all.")]
TopP = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Choose among tokens of this joint probability.")
]
MinP = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Least probability, relative to the likeliest.")
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**64 - 1,
        help="The same seed gives the same answer; random if left out.",
        show_default=False,
    ),
]
Stop = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="End before this text; may be given several times."),
]
System = Annotated[
    str | None, typer.Option(metavar="TEXT", help="A system message before the prompt.")
]
Thinking = Annotated[
    bool | None,
    typer.Option(
        "--thinking/--no-thinking",
        help="Ask for reasoning, or for none; the model's own way if left out.",
        show_default=False,
    ),
]
EffortWanted = Annotated[
    Effort | None,
    typer.Option(help="How long to reason, for models that know it.", show_default=False),
]
ThinkingBudget = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Most tokens of reasoning; then it is closed and the answer goes on.",
        show_default=False,
    ),
]
ContextSize = Annotated[
    int | None,
    typer.Option(min=1, help="Most tokens of prompt and answer; the model's own if left out."),
]
BackendChosen = Annotated[
    Backend, typer.Option(help="What computes: fast kernels, or plain NumPy.")
]
KVChosen = Annotated[
    KVType,
    typer.Option(help="How keys and values are held; q8_0 and q4_0 keep the near ones f16."),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads of the cpu backend; all processors if left out."),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Keep no packed weights for the next start.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error arose.")]


def refuse_impossible(top_p: float, stop: list[str] | None) -> None:
    """typer.BadParameter for values that no bound of an option excludes."""
    if top_p == 0.0:
        raise typer.BadParameter("--top-p must be above 0")
    if "" in (stop or ()):
        raise typer.BadParameter("--stop must not be empty")
