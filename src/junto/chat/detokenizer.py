"""Token ids to text while they come, one at a time.

Invariants: the pieces joined equal the whole decode, cut before the first stop string; no piece
holds part of a character that may still be completed, nor the beginning of what may become a stop
string. How the bytes are cut into tokens changes nothing in the joined text.
"""

import codecs
from collections.abc import Sequence

from junto.chat.stop_strings import StopStrings
from junto.chat.tokenizer import Tokenizer


class StreamDecoder:
    """The text of one answer, piece by piece."""

    def __init__(
        self, tokenizer: Tokenizer, stop: str | Sequence[str] = (), *, special: bool = False
    ) -> None:
        """Decode with `tokenizer`; `special` writes control tokens too.

        RequestError where a stop string is empty.
        """
        self._tokenizer = tokenizer
        self._stops = StopStrings(stop)
        self._special = special
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def stopped(self) -> bool:
        """Whether a stop string was complete."""
        return self._stops.stopped

    def feed(self, token_id: int) -> str:
        """The text that this token makes certain; empty after a stop string."""
        if self.stopped:
            return ""
        new_bytes = self._tokenizer.token_bytes(token_id, special=self._special)
        return self._stops.feed(self._characters.decode(new_bytes))

    def finish(self) -> str:
        """All that was held back, once no token follows; cut before a stop string."""
        text = self._stops.feed(self._characters.decode(b"", final=True))
        return text + self._stops.flush()
