"""A line on standard error while the first token is awaited; nothing where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

from junto.cli.loading_bar import PATIENCE_S

if TYPE_CHECKING:
    from junto.model import Model


def awaited(model: "Model", n_prompt: int) -> str:
    """What the first token waits for, as people read it."""
    # Imported here, so that help is quick.
    from junto.ops.cpu.backlog import n_bytes_to_come

    n_read = min(model.runner.cache.n_tok, n_prompt)
    said = f"reading the prompt: {n_read:,} of {n_prompt:,} tokens"
    n_bytes = n_bytes_to_come()
    return f"{said}; up to {n_bytes / 1e9:.1f} GB of experts to pack" if n_bytes else said


@contextmanager
def waiting_line(model: "Model", n_prompt: int) -> Iterator[Callable[[], None]]:
    """Give what ends the line, however often it is called; leaving ends it too.

    The line shows itself when the wait becomes one.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
    from rich.text import Text

    class Awaited(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(awaited(model, n_prompt))

    columns = (SpinnerColumn(), Awaited(), TimeElapsedColumn())
    line = Progress(*columns, console=Console(stderr=True), transient=True)
    line.add_task("", total=None)
    is_over, lock = False, Lock()

    def begin() -> None:
        with lock:
            if not is_over:
                line.start()

    def end() -> None:
        nonlocal is_over
        if not is_over:
            with lock:
                is_over = True
            line.stop()

    timer = Timer(PATIENCE_S, begin)
    timer.daemon = True
    timer.start()
    try:
        yield end
    finally:
        timer.cancel()
        end()
