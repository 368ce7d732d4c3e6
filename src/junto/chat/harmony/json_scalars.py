"""Strings, numbers and words of JSON from models, mended.

Total: whatever characters come in, those that come out are one JSON string, number or literal.
"""

import json
import re

MAX_NUMBER_CHARS = 1000
_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"""[^'"\\\x00-\x1f]+""")}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LITERALS = ("true", "false", "null")
_FOREIGN_LITERALS = {
    "True": "true",
    "False": "false",
    "None": "null",
    "NaN": "null",
    "undefined": "null",
}


def quoted(text: str) -> str:
    """A text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def value_of_word(word: str) -> str:
    """A bare word as a JSON value: itself where it is one, a string where it is nothing known."""
    if word in _LITERALS:
        return word
    if len(word) <= MAX_NUMBER_CHARS and _NUMBER.fullmatch(word):
        return word
    return _FOREIGN_LITERALS.get(word, quoted(word))


def value_of_cut_word(word: str) -> str:
    """A bare word after which the text ends as a JSON value: what it began, where that is known."""
    for literal in _LITERALS:
        if literal.startswith(word):
            return literal
    number = _NUMBER.match(word[:MAX_NUMBER_CHARS])
    if number and set(word[number.end() :]) <= set(".eE+-"):
        return number[0]
    return "null" if word == "-" else value_of_word(word)


class JsonString:
    """One string behind its opening quote, piece by piece; the quotes it is told in are double.

    n_repair    what has been mended
    is_closed   its closing quote has come
    """

    def __init__(self, quote: str) -> None:
        """Begin behind `quote`, one of the two."""
        self._quote = quote
        self._escape = ""
        self.n_repair = int(quote != '"')
        self.is_closed = False

    def finish(self) -> str:
        """The closing quote; an escape that is not whole goes."""
        return '"'

    def read(self, text: str, at: int) -> tuple[int, str]:
        """Read one character, or a run of them: the index behind, and what they tell."""
        if self._escape:
            return self._read_escape(text[at], at)
        if found := _PLAIN[self._quote].match(text, at):
            return found.end(), found[0]
        letter = text[at]
        if letter == self._quote:
            self.is_closed = True
            return at + 1, ""
        if letter == "\\":
            self._escape = letter
            return at + 1, ""
        self.n_repair += letter != '"'  # a raw control character
        return at + 1, quoted(letter)[1:-1]

    def _read_escape(self, letter: str, at: int) -> tuple[int, str]:
        """One more character of an escape; one that does not belong there is read again."""
        escape = self._escape + letter
        if len(self._escape) > 1:
            if letter not in "0123456789abcdefABCDEF":
                return at, self._mended()
            return at + 1, self._told(escape, is_whole=len(escape) == len(r"\u0000"))
        if letter in 'u"\\/bfnrt':
            return at + 1, self._told(escape, is_whole=letter != "u")
        if letter == "'":
            self._mended()
            return at + 1, letter
        return at, self._mended()

    def _told(self, escape: str, *, is_whole: bool) -> str:
        self._escape = "" if is_whole else escape
        return escape if is_whole else ""

    def _mended(self) -> str:
        """A backslash that escapes nothing stands for itself."""
        escape, self._escape = self._escape, ""
        self.n_repair += 1
        return "\\" + escape
