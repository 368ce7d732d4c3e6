"""Work beside the model's that ends before the interpreter does.

A thread that Python leaves behind at its exit would be ended inside a kernel, and the process with
it, so each is told to stop and waited for. Where it matters that it ends its work, it is waited for
before.
"""

import atexit
from collections.abc import Callable
from threading import Event, Thread


class Background:
    """A thread that has begun.

    work           looks often at the event that it is given, and ends soon after it is set
    is_waited_for  a program that ends lets it finish, unless it is interrupted
    """

    def __init__(self, work: Callable[[Event], None], name: str, *, is_waited_for: bool) -> None:
        self._work = work
        self._given_up = Event()
        self._thread = Thread(target=self._run, name=name, daemon=not is_waited_for)
        atexit.register(self.stop)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it is still at work."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Wait for its end."""
        self._thread.join(timeout_s)

    def stop(self) -> None:
        """Have it give up, and wait until it has."""
        self._given_up.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._work(self._given_up)
        finally:
            atexit.unregister(self.stop)
