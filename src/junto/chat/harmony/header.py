"""What the header of a message says, however badly a model wrote it.

A header is text between marks: the author after <|start|>, the channel after <|channel|>, the type
of content after <|constrain|>; a recipient (`to=...`) may stand in any of these. What is none of
that is noise where <|message|> follows, and the message's text where <|message|> is missing.
Total; knows no token ids.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ASSISTANT = "assistant"
CHANNELS = ("analysis", "commentary", "final")
ROLES = (ASSISTANT, "user", "system", "developer", "tool")
CONTENT_TYPES = ("json", "code", "text")

Place = Literal["begin", "start", "channel", "constrain"]
"""The mark that a piece of a header follows; `begin` where none does."""

_WORD = re.compile(r"\S+")
_RECIPIENT = re.compile(r"to=([\w.\-/:]*)")
_TYPE = re.compile(rf"(?i:{'|'.join(CONTENT_TYPES)})(?![A-Za-z_])")
_CHANNEL = re.compile(r"\s*([A-Za-z_]+)")
_NAMES = re.compile("|".join((*CHANNELS, *ROLES, *CONTENT_TYPES)))
_MIN_STUB = 3  # letters of a channel's name from which it is recognised


@dataclass(frozen=True, slots=True)
class Header:
    """Who speaks to whom on which channel; empty where nothing is said.

    rest       the beginning of the message's text, where <|message|> is missing
    n_repair   what had to be guessed
    """

    role: str = ASSISTANT
    channel: str = ""
    recipient: str = ""
    content_type: str = ""
    rest: str = ""
    n_repair: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of a header between two marks."""

    place: Place
    text: str


def read_header(pieces: Sequence[Piece]) -> Header:
    """The header that the pieces before <|message|> make up."""
    reading = _Reading(pieces)
    channel = reading.channel or reading.strange_channel
    n_noise = bool(reading.rest.strip())
    n_repair = reading.n_repair + n_noise + (not reading.channel)
    return Header(reading.role, channel, reading.recipient, reading.content_type, "", n_repair)


def read_bare_header(
    pieces: Sequence[Piece], *, is_cut: bool = False, before_mark: bool = False
) -> Header:
    """The header, and the text after it, of pieces after which <|message|> is missing.

    is_cut        nothing follows at all, so that a name may be incomplete
    before_mark   another mark of a header follows, so that names are no text
    """
    reading = _Reading(pieces)
    rest = reading.rest if reading.recipient else reading.bare_text
    is_plain = not before_mark and [piece.place for piece in pieces] == ["begin"]
    if not reading.recipient and not is_plain and _is_noise(rest.strip(), reading.channel, is_cut):
        rest = ""
    channel = "" if is_plain and not reading.recipient else reading.channel
    kind, n_repair = reading.content_type, reading.n_repair + 1
    return Header(reading.role, channel, reading.recipient, kind, rest, n_repair)


def _is_noise(text: str, channel: str, is_cut: bool) -> bool:
    """Whether this is markup gone wrong, not text that someone wants to read."""
    if is_cut and not channel and any(role.startswith(text) for role in ROLES):
        return True
    if channel:
        text = _NAMES.sub("", text)
    is_told = str.isalpha if channel == "commentary" else str.isalnum
    return not any(map(is_told, text))


class _Reading:
    """What has been understood of a header, piece by piece.

    rest        what is neither name, recipient nor type
    bare_text   the same, should <|message|> be missing: with the words that only seemed to be names
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.role = ASSISTANT
        self.channel = self.strange_channel = self.recipient = self.content_type = ""
        self.rest = self.bare_text = ""
        self.n_repair = 0
        for piece in pieces:
            match piece.place:
                case "channel":
                    self._read_channel(piece.text)
                case "constrain":
                    self._read_words(piece.text, 0, is_type=True)
                case _:
                    self._read_author(piece.text, has_begun=piece.place == "begin")

    def _read_author(self, text: str, *, has_begun: bool) -> None:
        """The author, and whatever else stands before the channel.

        has_begun   the author was written by the prompt, so that plain text may stand here
        """
        word = _WORD.search(text)
        if word is None:
            return
        is_followed_by_header = _is_header(text[word.end() :])
        if word[0].startswith(ASSISTANT) and not has_begun:
            self._read_after_author(text, word.start() + len(ASSISTANT))
        elif word[0] in (ASSISTANT, *CHANNELS) and is_followed_by_header:
            self.bare_text += text
            self.n_repair += word[0] == ASSISTANT
            start = word.end() if word[0] == ASSISTANT else word.start()
            self._read_after_author(text, start)
        elif not has_begun and (word[0] in ROLES or is_followed_by_header):
            self.role = word[0]
            self.n_repair += 1
            self._read_words(text, word.end())
        else:
            self._read_words(text, 0)
            self.bare_text = text if has_begun else self.bare_text

    def _read_after_author(self, text: str, start: int) -> None:
        """A channel that no mark announces, then the words of a header."""
        word = _WORD.search(text, start)
        if word and word[0] in CHANNELS:
            self.channel = word[0]
            self.n_repair += 1
            start = word.end()
        self._read_words(text, start)

    def _read_channel(self, text: str) -> None:
        found = None if text.lstrip().startswith("to=") else _CHANNEL.match(text)
        self.n_repair += bool(self.channel)
        if found is None:
            self._read_words(text, 0)
        elif name := _known_channel(found[1]):
            is_whole = found[1].startswith(name)
            self.n_repair += found[1] != name
            self.channel = name
            self._read_words(text, found.start(1) + len(name) if is_whole else found.end())
        else:
            self.strange_channel = found[1]
            self._read_words(text, found.end())
            self.bare_text = text

    def _read_words(self, text: str, start: int, *, is_type: bool = False) -> None:
        """Recipients and types of content from `start` on; anything else begins the rest."""
        while word := _WORD.search(text, start):
            if not self.recipient and (found := _RECIPIENT.match(text, word.start())):
                self.recipient = found[1]
                self.n_repair += not found[1]
            elif (found := _TYPE.match(text, word.start())) and (
                is_type or self.recipient or found.end() == len(text.rstrip())
            ):
                self.content_type = self.content_type or found[0].lower()
            else:
                self.rest += text[word.start() :]
                self.bare_text += text[word.start() :]
                return
            start = found.end()


def _is_header(text: str) -> bool:
    """Whether nothing but a recipient follows a name."""
    return not text.strip() or bool(_RECIPIENT.match(text.lstrip()))


def _known_channel(word: str) -> str | None:
    """The channel whose name begins the word, as in "finalThe", or that the word begins."""
    for name in CHANNELS:
        is_run_on = word.startswith(name) and not word[len(name) :][:1].islower()
        if is_run_on or (len(word) >= _MIN_STUB and name.startswith(word)):
            return name
    return None
