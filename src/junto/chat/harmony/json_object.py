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
from typing import Literal

MAX_DEPTH = 64
_MAX_NUMBER_CHARS = 1000
_BLANKS = " \t\n\r"
_CLOSERS = {"{": "}", "[": "]"}
_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"""[^'"\\\x00-\x1f]+""")}
_WORD = re.compile(r"""[^\s,:{}\[\]"']+""")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LITERALS = ("true", "false", "null")
_FOREIGN_LITERALS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "NaN": "null",
    "undefined": "null",
}
_FENCE = re.compile(r"\A\s*```\w*\s*|\s*```\s*\Z")


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


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


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
        self._quote: Literal["", '"', "'"] = ""
        self._is_key = False
        self._escape = ""
        self._foreign = ""

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
            return self._taken() + _object_of(self._foreign)
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
        if self._quote:
            return self._read_string(text, at)
        if found := _WORD.match(text, at):
            return self._read_word(found)
        self._end_word()
        self._read_sign(text[at])
        return at + 1

    def _read_word(self, found: re.Match[str]) -> int:
        if self._expects is _Expects.OBJECT:
            self._foreign += found[0]
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
        if sign == "{" and not self._foreign.strip():
            self._out += self._foreign if not self._foreign.strip(_BLANKS) else ""
            self._foreign = ""
            self._push(sign)
        else:
            self._foreign += sign

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
            self._held += _quoted(word)
            self._expects = _Expects.COLON
        else:
            value = _value_of_word(word)
            self.n_repair += value != word
            self._write_value(value)

    def _open_string(self, quote: str) -> None:
        self._make_place()
        self.n_repair += quote == "'"
        self._quote = '"' if quote == '"' else "'"
        self._is_key = self._expects in _KEYS
        if not self._is_key:
            self._begin_value()
        self._write('"')

    def _write(self, text: str) -> None:
        if self._is_key:
            self._held += text
        else:
            self._out += text

    def _read_string(self, text: str, at: int) -> int:
        if self._escape:
            return self._read_escape(text, at)
        if self._quote and (found := _PLAIN[self._quote].match(text, at)):
            self._write(found[0])
            return found.end()
        letter = text[at]
        if letter == self._quote:
            self._close_string()
        elif letter == "\\":
            self._escape = letter
        else:  # a raw control character, or a double quote between single ones
            self.n_repair += letter != '"'
            self._write(_quoted(letter)[1:-1])
        return at + 1

    def _close_string(self) -> None:
        self._write('"')
        self._quote = ""
        if self._is_key:
            self._expects = _Expects.COLON
        else:
            self._after_value()

    def _read_escape(self, text: str, at: int) -> int:
        """One more character of an escape; one that does not belong there is read again."""
        letter = text[at]
        if len(self._escape) > 1:
            return self._read_hex(letter, at)
        if letter == "u":
            self._escape += letter
            return at + 1
        if letter in '"\\/bfnrt':
            self._write(self._escape + letter)
            self._escape = ""
            return at + 1
        self._mend_escape(keeps_backslash=letter != "'")
        if letter == "'":
            self._write(letter)
        return at + (letter == "'")

    def _read_hex(self, letter: str, at: int) -> int:
        if letter not in "0123456789abcdefABCDEF":
            self._mend_escape()
            return at
        self._escape += letter
        if len(self._escape) == len(r"\u0000"):
            self._write(self._escape)
            self._escape = ""
        return at + 1

    def _mend_escape(self, *, keeps_backslash: bool = True) -> None:
        self.n_repair += 1
        if keeps_backslash:
            self._write("\\" + self._escape)
        self._escape = ""

    def _complete(self) -> None:
        """Close everything that is open."""
        if self._quote:
            self._escape = ""
            self._close_string()
        elif self._word and self._expects in _VALUES:
            self._write_value(_value_of_cut_word(self._word))
        self._held = ""
        self._out += "".join(reversed(self._closers))
        self._closers.clear()
        self._expects = _Expects.NOTHING


def _value_of_word(word: str) -> str:
    """A bare word as a JSON value: itself where it is one, a string where it is nothing known."""
    if word in _LITERALS:
        return word
    if len(word) <= _MAX_NUMBER_CHARS and _NUMBER.fullmatch(word):
        return word
    return _FOREIGN_LITERALS.get(word, _quoted(word))


def _value_of_cut_word(word: str) -> str:
    for literal in _LITERALS:
        if literal.startswith(word):
            return literal
    number = _NUMBER.match(word[:_MAX_NUMBER_CHARS])
    if number and set(word[number.end() :]) <= set(".eE+-"):
        return number[0]
    return "null" if word == "-" else _value_of_word(word)


def _object_of(text: str) -> str:
    """The object that a text means which does not begin with one."""
    bare = _FENCE.sub("", text)
    if bare.lstrip().startswith("{"):
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
