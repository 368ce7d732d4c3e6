"""Text that ends before a stop string, while it comes.

Invariants: the pieces joined equal the whole text, cut before the stop string that is complete
first; no piece holds the beginning of what may become one. How the text is cut changes nothing.
"""

from collections.abc import Sequence

from junto.errors import RequestError


def _first_stop(text: str, stops: Sequence[str]) -> int | None:
    """Where the stop string begins that is complete first (the longest of those), or None.

    Completeness decides, not the beginning: so the answer is the same for any cut of the text.
    """
    found = [(start + len(stop), start) for stop in stops if (start := text.find(stop)) >= 0]
    return min(found)[1] if found else None


def _n_held(text: str, stops: Sequence[str]) -> int:
    """Length of the longest end of the text that begins some stop string."""
    longest = min(len(text), max(map(len, stops), default=1) - 1)
    for n in range(longest, 0, -1):
        if any(stop.startswith(text[-n:]) for stop in stops):
            return n
    return 0


class StopStrings:
    """Holds back what may become a stop string, and cuts before one.

    stopped   a stop string was complete; nothing comes after it
    """

    def __init__(self, stops: str | Sequence[str] = ()) -> None:
        """One stop string or several; RequestError where one is empty."""
        self._stops = (stops,) if isinstance(stops, str) else tuple(stops)
        if not all(self._stops):
            raise RequestError("stop: an empty string stops before anything; leave it out")
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """What this text makes certain; empty after a stop string."""
        if self.stopped:
            return ""
        text = self._held + text
        start = _first_stop(text, self._stops)
        if start is not None:
            self.stopped, self._held = True, ""
            return text[:start]
        n_certain = len(text) - _n_held(text, self._stops)
        self._held = text[n_certain:]
        return text[:n_certain]

    def flush(self) -> str:
        """What was held back, which no text follows; a stop string cannot begin in it any more."""
        rest, self._held = self._held, ""
        return rest
