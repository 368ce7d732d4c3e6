"""Where a long text may be cut so that its parts, encoded one by one, give the ids of the whole.

The cost of encoding grows faster than the text once its words no longer fit in the processor's
caches, so a long text is encoded in pieces. A cut must be a border between words for certain,
whatever stands around it, and neither side may look across it: a matter of proof for each pattern
that cuts words, not of trial. Knows no vocabulary.

A cut lies between two characters of which the first is

- anything but white space, and the second a blank: words hold a blank only as their first character
  or among white space;
- an ASCII or Chinese letter, and the second ASCII but neither a letter nor an apostrophe (which may
  begin a contraction that belongs to the word);
- an ASCII digit, and the second ASCII but neither a digit nor an apostrophe;
- a digit of a run of digits, a multiple of the longest number after the beginning of the run.

None of the patterns looks back, and each looks forward only past white space, so the sides are
independent. The second character is always ASCII, which no Unicode composition (NFC) joins to what
stands before it.
"""

import re
import unicodedata
from collections.abc import Iterator

_CUT = (
    r"(?<=[^\s\x1c-\x1f\x85\u180e\u200b\ufeff])(?= )"
    r"|(?<=[A-Za-z\u4e00-\u9fa5])(?=[\x00-&(-@\[-`{-\x7f])"
    r"|(?<=[0-9])(?=[\x00-&(-/:-\x7f])"
)
_DIGITS = "0123456789"
_CUT_OR_DIGITS = {
    None: re.compile(_CUT),
    1: re.compile(_CUT + "|(?<=[0-9])(?=[0-9])"),
    3: re.compile(_CUT + "|(?P<digits>[0-9]{4})"),
}


def pieces(text: str, n_digit: int | None, n_piece: int) -> Iterator[str]:
    """The text in pieces that are cut as soon after `n_piece` characters as is safe.

    n_digit  the most digits that one word holds (1 or 3), or None where there is no such limit

    The pieces joined are the text; where nothing can be cut, a piece is as long as it must be.
    """
    start = 0
    while len(text) - start > n_piece:
        end = _next_cut(text, start, start + n_piece, n_digit)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _next_cut(text: str, start: int, pos: int, n_digit: int | None) -> int:
    """The first cut from `pos` on, where `start` is the cut before; the end where there is none."""
    while found := _CUT_OR_DIGITS[n_digit].search(text, pos):
        if not found.groupdict().get("digits"):
            return found.start()
        run = len(text[start : found.start()].rstrip(_DIGITS)) + start
        if run == start or _is_no_digit(text[run - 1]):
            return run + (found.start() - run) // 3 * 3 + 3
        pos = found.end()
    return len(text)


def _is_no_digit(letter: str) -> bool:
    """Whether a character is none of Unicode's numbers; False where that is not certain."""
    return unicodedata.category(letter)[0] in "LMPSZ"
