"""A bar of bytes on standard error, of packing or fetching; nothing where nobody watches."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 0.5
"""A start that is done sooner needs no bar."""


@contextmanager
def loading_bar(name: str, doing: str = "packing") -> Iterator[Callable[[int, int], None] | None]:
    """Give what is to be called with (bytes done, bytes of all); the bar goes when it is done."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn(f"{doing} {{task.description}}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    start = time.perf_counter()
    task = bar.add_task(name, total=None)

    def tell(done: int, total: int) -> None:
        if not bar.live.is_started and time.perf_counter() - start > PATIENCE_S:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield tell
    finally:
        bar.stop()
