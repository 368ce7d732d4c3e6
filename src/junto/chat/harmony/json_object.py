"""JSON objects from models, mended while they come.

Whatever text comes in, the characters that come out are one JSON object; they are the very
characters that came in where those are one. Total: each character has a meaning in each state.
Mended are: cut texts, single quotes, bare words, Python's literals, raw line ends in strings,
missing and doubled commas, missing colons and brackets, text after the object. A text that is no
object at all is told at its end, as {"input": ...}.

Out goes only what can still be completed: a comma, a key and a colon wait for their value, numbers
and words for their end.
"""

import json
import re
from enum import Enum, auto

from junto.chat.harmony.json_scalars import JsonString, quoted, value_of_cut_word, value_of_word

MAX_DEPTH = 64
_BLANKS = " \t\n\r"
_CLOSERS = {"{": "}", "[": "]"}
_WORD = re.compile(r"""[^\s,:{}\[\]"']+""")
_FENCE = re.compile(r"```\w*")


class _Expects(Enum):
    """What may come next; FIRST_ means that the bracket may close at once without harm."""

    OBJECT = auto()
    FIRST_KEY = auto()
    KEY = auto()
    COLON = auto()
    VALUE = auto()
    FIRST_ITEM = auto()
    ITEM = auto()
    COMMA = auto()
    NOTHING = auto()


_KEYS = (_Expects.FIRST_KEY, _Expects.KEY)
_VALUES = (_Expects.VALUE, _Expects.FIRST_ITEM, _Expects.ITEM)


class JsonObject:
    """One object, piece by piece.

    n_repair   what has been mended
    """

    def __init__(self) -> None:
        self.n_repair = 0
        self._expects = _Expects.OBJECT
        self._closers: list[str] = []
        self._out = ""
        self._held = ""
        self._word = ""
        self._string: JsonString | None = None
        self._is_key = False
        self._beginning: list[str] = []
        self._is_foreign = False

    def feed(self, text: str) -> str:
        """The characters of the object that this text makes certain."""
        at = 0
        while at < len(text):
            at = self._step(text, at)
        return self._taken()

    def finish(self) -> str:
        """The characters that complete the object."""
        if self._expects is _Expects.OBJECT:
            self.n_repair += 1
            return self._taken() + _object_of("".join(self._beginning))
        if self._expects is _Expects.NOTHING:
            self._end_word()
        else:
            self.n_repair += 1
            self._complete()
        return self._taken()

    def _taken(self) -> str:
        out, self._out = self._out, ""
        return out

    def _step(self, text: str, at: int) -> int:
        """Read one character, or a run of them; the index behind."""
        if self._string:
            return self._read_string(self._string, text, at)
        if found := _WORD.match(text, at):
            return self._read_word(found)
        self._end_word()
        self._read_sign(text[at])
        return at + 1

    def _read_word(self, found: re.Match[str]) -> int:
        if self._expects is _Expects.OBJECT:
            self._beginning.append(found[0])
            self._is_foreign = True
        else:
            self._word += found[0]
        return found.end()

    def _read_sign(self, sign: str) -> None:
        if self._expects is _Expects.OBJECT:
            self._read_beginning(sign)
        elif sign in _BLANKS:
            self._write_blank(sign)
        elif self._expects is _Expects.NOTHING:
            self.n_repair += 1
        elif sign in "\"'":
            self._open_string(sign)
        elif sign in _CLOSERS:
            self._open_bracket(sign)
        elif sign in _CLOSERS.values():
            self._close_bracket(sign)
        elif sign == ",":
            self._read_comma()
        elif sign == ":" and self._expects is _Expects.COLON:
            self._held += sign
            self._expects = _Expects.VALUE
        else:
            self.n_repair += 1

    def _read_beginning(self, sign: str) -> None:
        if sign == "{" and not self._is_foreign:
            self._out += "".join(self._beginning)
            self._push(sign)
        elif sign not in _BLANKS and sign.isspace():
            self.n_repair += 1
        else:
            self._beginning.append(sign)
            self._is_foreign |= sign not in _BLANKS

    def _write_blank(self, blank: str) -> None:
        if self._held:
            self._held += blank
        else:
            self._out += blank

    def _push(self, bracket: str) -> None:
        self._out += bracket
        self._closers.append(_CLOSERS[bracket])
        self._expects = _Expects.FIRST_KEY if bracket == "{" else _Expects.FIRST_ITEM

    def _after_value(self) -> None:
        self._expects = _Expects.COMMA if self._closers else _Expects.NOTHING

    def _begin_value(self) -> None:
        self._out += self._held
        self._held = ""

    def _make_place(self) -> None:
        """Write the comma or colon that a key or value lacks before it."""
        if self._expects is _Expects.COMMA:
            self.n_repair += 1
            self._held = ","
            self._expects = _Expects.KEY if self._closers[-1] == "}" else _Expects.ITEM
        elif self._expects is _Expects.COLON:
            self.n_repair += 1
            self._held += ":"
            self._expects = _Expects.VALUE

    def _open_bracket(self, bracket: str) -> None:
        if self._expects is not _Expects.COMMA or self._closers[-1] == "]":
            self._make_place()
        if self._expects not in _VALUES:
            self.n_repair += 1
        elif len(self._closers) == MAX_DEPTH:
            self._write_value("null")
            self.n_repair += 1
        else:
            self._begin_value()
            self._push(bracket)

    def _close_bracket(self, closer: str) -> None:
        if closer not in self._closers:
            self.n_repair += 1
            return
        while self._closers[-1] != closer:
            self.n_repair += 1
            self._close_innermost()
        self._close_innermost()

    def _close_innermost(self) -> None:
        self._end_member()
        self._held = ""
        self._out += self._closers.pop()
        self._after_value()

    def _end_member(self) -> None:
        """Give a key its value, and forget a comma that nothing follows."""
        if self._expects in (_Expects.COLON, _Expects.VALUE):
            self._make_place()
            self._write_value("null")
            self.n_repair += 1
        elif self._expects in (_Expects.KEY, _Expects.ITEM):
            self.n_repair += 1

    def _read_comma(self) -> None:
        if self._expects in (_Expects.COLON, _Expects.VALUE):
            self._end_member()
        if self._expects is not _Expects.COMMA:
            self.n_repair += 1
            return
        self._held = ","
        self._expects = _Expects.KEY if self._closers[-1] == "}" else _Expects.ITEM

    def _write_value(self, value: str) -> None:
        self._begin_value()
        self._out += value
        self._after_value()

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        if self._expects is _Expects.NOTHING:
            self.n_repair += 1
            return
        self._make_place()
        if self._expects in _KEYS:
            self.n_repair += 1
            self._held += quoted(word)
            self._expects = _Expects.COLON
        else:
            value = value_of_word(word)
            self.n_repair += value != word
            self._write_value(value)

    def _open_string(self, quote: str) -> None:
        self._make_place()
        self._string = JsonString(quote)
        self._is_key = self._expects in _KEYS
        if not self._is_key:
            self._begin_value()
        self._write('"')

    def _write(self, text: str) -> None:
        if self._is_key:
            self._held += text
        else:
            self._out += text

    def _read_string(self, string: JsonString, text: str, at: int) -> int:
        at, written = string.read(text, at)
        self._write(written)
        if string.is_closed:
            self._close_string(string)
        return at

    def _close_string(self, string: JsonString) -> None:
        self._write(string.finish())
        self.n_repair += string.n_repair
        self._string = None
        if self._is_key:
            self._expects = _Expects.COLON
        else:
            self._after_value()

    def _complete(self) -> None:
        """Close everything that is open."""
        if self._string:
            self._close_string(self._string)
        elif self._word and self._expects in _VALUES:
            self._write_value(value_of_cut_word(self._word))
        self._held = ""
        self._out += "".join(reversed(self._closers))
        self._closers.clear()
        self._expects = _Expects.NOTHING


def _object_of(text: str) -> str:
    """The object that a text means which does not begin with one."""
    bare = text.strip()
    if fence := _FENCE.match(bare):
        bare = bare[fence.end() :].removesuffix("```").strip()
    if bare.startswith("{"):
        inner = JsonObject()
        return inner.feed(bare) + inner.finish()
    value = _parsed(bare)
    if isinstance(value, str):
        value = _parsed(value)
    if value == "":
        return "{}"
    return json.dumps(value if isinstance(value, dict) else {"input": value}, ensure_ascii=False)


def _parsed(text: str) -> object:
    """The value of a JSON text; the text itself where it is none, or one of strange numbers."""
    if text.count("[") + text.count("{") > MAX_DEPTH:
        return text
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except ValueError:
        return text.strip()
    return value
