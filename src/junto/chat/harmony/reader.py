"""An answer's token ids as messages with header and text, while they come.

Total: any sequence of ids gives some messages and no exception. Text is lost only where it stands
in a header as noise; what had to be mended is counted. A header is read whole before its text is
told, so a header that never ends is taken for text once it is too long to be one.
Knows nothing of calls and reasoning; the parser does.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from junto.chat.detokenizer import StreamDecoder
from junto.chat.harmony.header import (
    ASSISTANT,
    Header,
    Piece,
    Place,
    read_bare_header,
    read_header,
)
from junto.chat.harmony.markup import ENDS_ANSWER, Mark, Markup
from junto.chat.tokenizer import Tokenizer

MAX_HEADER_CHARS = 256
_LINE_END = re.compile(r"\S[^\S\n]*(\n)\s*\S")


@dataclass(frozen=True, slots=True)
class Opened:
    """A message begins."""

    header: Header


@dataclass(frozen=True, slots=True)
class Text:
    """The next characters of the open message, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The open message ends; `by` is None where nothing follows it."""

    by: Mark | None


Step = Opened | Text | Closed


def _told(text: str) -> list[Text]:
    return [Text(text)] if text else []


class _OpenHeader:
    """A header that is still being written: whole pieces, and the one that grows."""

    def __init__(self, tokenizer: Tokenizer, place: Place) -> None:
        self._tokenizer = tokenizer
        self._place: Place = place
        self._text = ""
        self._pieces: list[Piece] = []
        self._n_chars = 0
        self.decoder = StreamDecoder(tokenizer)

    def feed(self, token_id: int) -> None:
        self._text += self.decoder.feed(token_id)

    def end_piece(self) -> None:
        """End the piece that grows; no text may follow but in a new one."""
        self._text += self.decoder.finish()
        self.decoder = StreamDecoder(self._tokenizer)

    def begin_piece(self, place: Place) -> None:
        self.end_piece()
        self._pieces.append(Piece(self._place, self._text))
        self._n_chars += len(self._text)
        self._place, self._text = place, ""

    @property
    def pieces(self) -> list[Piece]:
        return [*self._pieces, Piece(self._place, self._text)]

    @property
    def has_marks(self) -> bool:
        """Whether a mark has come since the author."""
        return bool(self._pieces)

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come since what the prompt, or the message before, has written."""
        return not self._pieces and self._place == "begin" and not self._text.strip()

    def split_off(self) -> str:
        """Cut off what can be no header, being too long or on another line; mostly nothing.

        Where this cuts depends on the characters alone, not on how tokens bring them.
        """
        n_free = max(0, MAX_HEADER_CHARS - self._n_chars)
        line_end = _LINE_END.search(self._text[:n_free])
        end = line_end.start(1) if line_end else n_free
        self._text, tail = self._text[:end], self._text[end:]
        return tail


class MessageReader:
    """Reads one answer, token by token.

    n_repair   what had to be mended so far
    is_done    the answer has ended
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        markup: Markup,
        *,
        opened: Header | None = None,
        expects_start: bool = False,
    ) -> None:
        """Begin where the prompt ends.

        opened          the message whose header the prompt has written, if it has
        expects_start   the prompt has not written <|start|> and the author
        """
        self._tokenizer = tokenizer
        self._markup = markup
        self.n_repair = 0
        self.is_done = False
        self._expects_start = expects_start
        self._beginning: list[Step] = [] if opened is None else [Opened(opened)]
        self._header = self._new_header("begin") if opened is None else None
        self._decoder = StreamDecoder(tokenizer)

    def feed(self, token_id: int) -> list[Step]:
        """What this token makes certain; nothing after the end of the answer."""
        if self.is_done:
            return []
        return [*self._begun(), *self._read(token_id)]

    def finish(self) -> list[Step]:
        """What was held back, once no token follows."""
        if self.is_done:
            return []
        self.is_done = True
        return [*self._begun(), *self._close(None)]

    def _begun(self) -> list[Step]:
        steps, self._beginning = self._beginning, []
        return steps

    def _new_header(self, place: Place) -> _OpenHeader:
        return _OpenHeader(self._tokenizer, place)

    def _read(self, token_id: int) -> Iterator[Step]:
        match self._markup.marks.get(token_id):
            case None:
                yield from self._read_text(token_id)
            case Mark.START:
                yield from self._start()
            case Mark.CHANNEL:
                yield from self._channel()
            case Mark.CONSTRAIN if self._header:
                header = yield from self._continued(self._header)
                header.begin_piece("constrain")
            case Mark.MESSAGE if self._header:
                yield from self._message(self._header)
            case Mark.CONSTRAIN | Mark.MESSAGE:
                self.n_repair += 1
            case mark:
                yield from self._end(mark)

    def _is_text(self, token_id: int) -> bool:
        in_vocabulary = 0 <= token_id < self._tokenizer.n_vocab
        return in_vocabulary and not self._tokenizer.is_control(token_id)

    def _read_text(self, token_id: int) -> Iterator[Step]:
        if not self._is_text(token_id):
            self.n_repair += 1
        elif self._header is None:
            yield from _told(self._decoder.feed(token_id))
        else:
            self._header.feed(token_id)
            if tail := self._header.split_off():
                bare = read_bare_header(self._header.pieces)
                yield self._open(bare, self._header.decoder)
                yield Text(bare.rest + tail)

    def _start(self) -> Iterator[Step]:
        is_here_already = self._header is not None and self._header.is_empty
        self.n_repair += self._header is None or (is_here_already and not self._expects_start)
        yield from self._close(Mark.START)
        self._header = self._new_header("start")
        self._expects_start = False

    def _channel(self) -> Iterator[Step]:
        if self._header is None:
            self.n_repair += 1
            yield from self._close(Mark.CHANNEL)
            header = self._header = self._new_header("begin")
        else:
            header = yield from self._continued(self._header)
        header.begin_piece("channel")

    def _message(self, header: _OpenHeader) -> Iterator[Step]:
        header = yield from self._continued(header)
        header.end_piece()
        yield self._open(read_header(header.pieces), StreamDecoder(self._tokenizer))

    def _continued(self, header: _OpenHeader) -> Generator[Step, None, _OpenHeader]:
        """The header that the next mark belongs to; text before it is a message of its own."""
        self.n_repair += self._expects_start
        self._expects_start = False
        header.end_piece()
        if header.has_marks or header.is_empty:
            return header
        bare = read_bare_header(header.pieces, before_mark=True)
        if not bare.rest.strip() or bare.role != ASSISTANT:
            return header
        self.n_repair += bare.n_repair
        yield from (Opened(bare), Text(bare.rest), Closed(None))
        self._header = self._new_header("begin")
        return self._header

    def _open(self, header: Header, decoder: StreamDecoder) -> Opened:
        self.n_repair += header.n_repair
        self._header, self._decoder = None, decoder
        self._expects_start = False
        return Opened(header)

    def _close(self, by: Mark | None) -> Iterator[Step]:
        """End the open message, or the header that never came to its message."""
        if self._header is None:
            yield from _told(self._decoder.finish())
            yield Closed(by)
            return
        self._header.end_piece()
        if self._header.is_empty:
            return
        bare = read_bare_header(self._header.pieces, is_cut=by is None)
        self.n_repair += bare.n_repair
        if bare.rest.strip() or (bare.recipient and by is not None):
            yield Opened(bare)
            yield from _told(bare.rest)
            yield Closed(by)

    def _end(self, mark: Mark) -> Iterator[Step]:
        is_stray = mark is Mark.END and self._header is not None and self._header.is_empty
        self.n_repair += is_stray
        yield from self._close(mark)
        self.is_done = mark in ENDS_ANSWER
        self._header = self._new_header("begin")
        self._expects_start = True
