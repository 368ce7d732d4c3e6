"""One harmony message, and the ids of many.

Only `written` puts control tokens into a prompt. All text between two of them, whoever wrote it, is
encoded as plain text in one stretch: so it forges nothing, and its words are cut as in training.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from junto.chat.harmony.markup import Mark, Markup
from junto.chat.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class HarmonyMessage:
    """A message as harmony has it; empty fields are not written.

    content_type   what the text is, as "json" or "code"
    constrained    the type is held by the sampler: <|constrain|> stands before it
    is_call        the text calls the recipient: <|call|> ends it
    """

    author: str
    text: str
    recipient: str = ""
    channel: str = ""
    content_type: str = ""
    constrained: bool = False
    is_call: bool = False


class _Writer:
    """Ids of plain text and marks in turn."""

    def __init__(self, tokenizer: Tokenizer, markup: Markup) -> None:
        self._tokenizer = tokenizer
        self._markup = markup
        self._ids: list[int] = []
        self._plain: list[str] = []

    def write(self, *pieces: str | Mark) -> None:
        for piece in pieces:
            if isinstance(piece, Mark):
                self.flush().append(self._markup.ids[piece])
            else:
                self._plain.append(piece)

    def flush(self) -> list[int]:
        self._ids += self._tokenizer.encode("".join(self._plain), special=False)
        self._plain = []
        return self._ids


def _pieces(message: HarmonyMessage) -> Iterable[str | Mark]:
    yield from (Mark.START, message.author)
    if message.recipient:
        yield f" to={message.recipient}"
    if message.channel:
        yield from (Mark.CHANNEL, message.channel)
    if message.content_type:
        yield " "
        yield from [Mark.CONSTRAIN] if message.constrained else []
        yield message.content_type
    yield from (Mark.MESSAGE, message.text, Mark.CALL if message.is_call else Mark.END)


def written(
    tokenizer: Tokenizer,
    markup: Markup,
    messages: Iterable[HarmonyMessage],
    beginning: Iterable[str | Mark] = (),
) -> list[int]:
    """Ids of messages, then of the beginning of the next one."""
    writer = _Writer(tokenizer, markup)
    for message in messages:
        writer.write(*_pieces(message))
    writer.write(*beginning)
    return writer.flush()
