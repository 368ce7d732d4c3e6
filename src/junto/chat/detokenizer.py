"""Token ids to text while they come, one at a time.

Invariants: the pieces joined equal the whole decode, cut before the first stop string; no piece
holds part of a character that may still be completed, nor the beginning of what may become a stop
string. How the bytes are cut into tokens changes nothing in the joined text.
"""

import codecs
from collections.abc import Sequence

from junto.chat.tokenizer import Tokenizer
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


class StreamDecoder:
    """The text of one answer, piece by piece."""

    def __init__(
        self, tokenizer: Tokenizer, stop: Sequence[str] = (), *, special: bool = False
    ) -> None:
        """Decode with `tokenizer`; `special` writes control tokens too.

        RequestError where a stop string is empty.
        """
        if any(not text for text in stop):
            raise RequestError("stop: an empty string stops before anything; leave it out")
        self._tokenizer = tokenizer
        self._stops = tuple(stop)
        self._special = special
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped = False

    def feed(self, token_id: int) -> str:
        """The text that this token makes certain; empty after a stop string."""
        if self.stopped:
            return ""
        new_bytes = self._tokenizer.token_bytes(token_id, special=self._special)
        return self._advance(self._characters.decode(new_bytes))

    def finish(self) -> str:
        """All that was held back, once no token follows; cut before a stop string."""
        if self.stopped:
            return ""
        text = self._advance(self._characters.decode(b"", final=True))
        rest, self._held = self._held, ""
        return text + rest

    def _advance(self, new: str) -> str:
        text = self._held + new
        start = _first_stop(text, self._stops)
        if start is not None:
            self.stopped, self._held = True, ""
            return text[:start]
        n_certain = len(text) - _n_held(text, self._stops)
        self._held = text[n_certain:]
        return text[:n_certain]
