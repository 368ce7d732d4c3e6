"""Ctrl-C while an answer comes: it ends the answer, not the chat."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from junto.reply import Reply


class Interrupt:
    """Whether Ctrl-C was pressed."""

    wanted = False


@contextmanager
def interruptible(reply: Reply) -> Iterator[Interrupt]:
    """Watch for Ctrl-C while a reply is read.

    Once tokens come, the first press is only noted: the caller stops at the next event, so the step
    under way ends and the cache stays good. Before that, and at the second press, it is a
    KeyboardInterrupt at once.
    """
    seen = Interrupt()

    def note(number: int, frame: FrameType | None) -> None:
        if seen.wanted or not reply.token_ids:
            raise KeyboardInterrupt
        seen.wanted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
