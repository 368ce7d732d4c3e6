"""The control tokens of harmony, by id.

Knows no message. Invariant: text never stands for one of these; only ids do.
"""

from dataclasses import dataclass
from enum import Enum

from junto.chat.tokenizer import Tokenizer
from junto.errors import TextError


class Mark(Enum):
    """What a control token does."""

    START = "<|start|>"
    CHANNEL = "<|channel|>"
    CONSTRAIN = "<|constrain|>"
    MESSAGE = "<|message|>"
    END = "<|end|>"
    CALL = "<|call|>"
    RETURN = "<|return|>"
    END_OF_TEXT = "<|endoftext|>"


ENDS_ANSWER = frozenset({Mark.CALL, Mark.RETURN, Mark.END_OF_TEXT})


@dataclass(frozen=True, slots=True)
class Markup:
    """The ids of a vocabulary's marks, both ways."""

    ids: dict[Mark, int]
    marks: dict[int, Mark]

    @staticmethod
    def of(tokenizer: Tokenizer) -> "Markup":
        """The marks of a vocabulary; TextError where it lacks one other than <|endoftext|>."""
        found = {mark: tokenizer.added_id(mark.value) for mark in Mark}
        ids = {mark: i for mark, i in found.items() if i is not None}
        missing = [mark.value for mark in Mark if mark not in ids and mark is not Mark.END_OF_TEXT]
        if missing:
            raise TextError(
                f"harmony: the vocabulary has no token {missing[0]!r}; it is not that of gpt-oss"
            )
        return Markup(ids, {i: mark for mark, i in ids.items()})

    @property
    def stop_ids(self) -> frozenset[int]:
        """The tokens that end an answer."""
        return frozenset(i for i, mark in self.marks.items() if mark in ENDS_ANSWER)
