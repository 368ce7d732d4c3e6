"""JSON as models write it: read without surprises, mended where it is cut, written as valid JSON.

Knows no markup and no schema. Everything that cannot be read is a ValueError, deep nesting and
NaN included, so a caller has one thing to catch.
"""

import json
import re
from typing import Any

_BLANK = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*(?:(")|\\?\Z)|[\[\]{},]', re.DOTALL)
# What a cut leaves of a member: perhaps a key, and the beginning of a number or a word.
_STUMP = re.compile(
    r"""\s*+(?:"(?:[^"\\]|\\.)*+(?:"|\\)?+\s*+:?+\s*+)?+"""
    r"(?:[tfn][a-z]{0,3}|-?[0-9]*+(?:[.][0-9]*+)?+(?:[eE][+-]?[0-9]*+)?+)\s*+",
    re.DOTALL,
)
_CUT_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CLOSING = {"{": "}", "[": "]"}


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_LENIENT = json.JSONDecoder(parse_constant=_refuse, strict=False)


def loads(text: str, *, strict: bool = True) -> Any:
    """The value of a JSON text; `strict=False` allows raw control characters within strings."""
    try:
        return (_DECODER if strict else _LENIENT).decode(text)
    except RecursionError as error:
        raise ValueError("too deeply nested") from error


def dumps(value: Any) -> str:
    """JSON of a value, letters as they are; lone surrogates escaped. ValueError where it has none.

    The separators are those of `json.dumps` and of the templates.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError("no JSON value") from error
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def items(text: str) -> dict[str, tuple[Any, str]]:
    """Key -> (value, the text it was spelled by) of a JSON object; ValueError for anything else."""
    text = text.strip()
    if not isinstance(loads(text), dict):
        raise ValueError("no JSON object")
    found: dict[str, tuple[Any, str]] = {}
    i = _next(text, 1)
    while text[i] != "}":
        key, i = _DECODER.raw_decode(text, i)
        start = _next(text, _next(text, i) + 1)  # behind the colon
        value, end = _DECODER.raw_decode(text, start)
        found[key] = (value, text[start:end])
        i = _next(text, end)
        if text[i] == ",":
            i = _next(text, i + 1)
    return found


def _next(text: str, i: int) -> int:
    blank = _BLANK.match(text, i)
    assert blank is not None, "the pattern matches nothing at all too"
    return blank.end()


def mended(text: str) -> str:
    """The text itself if it is JSON; else what a cut or sloppy one means. ValueError if none.

    Mends what is open at the end (strings, lists, objects; a member that is not whole is dropped)
    and raw control characters within strings.
    """
    text = text.strip()
    try:
        loads(text)
    except ValueError:
        pass
    else:
        return text
    for whole in _completions(text):
        try:
            return dumps(loads(whole, strict=False))
        except ValueError:
            continue
    raise ValueError("no JSON, nor the beginning of any")


def _completions(text: str) -> list[str]:
    """What a text that was cut may have meant: all of it closed; or all but its last member."""
    still_open: list[str] = []
    unclosed_string = False
    n_whole = 0
    for found in _STRUCTURE.finditer(text):
        mark = found[0]
        unclosed_string = mark[0] == '"' and not found[1]
        if mark in _CLOSING:
            still_open.append(_CLOSING[mark])
            n_whole = found.end()
        elif still_open and mark == still_open[-1]:
            still_open.pop()
        elif mark == ",":
            n_whole = found.start()
    closing = "".join(reversed(still_open))
    whole = _CUT_ESCAPE.sub(r"\1", text) + '"' if unclosed_string else text
    is_stump = still_open and _STUMP.fullmatch(text[n_whole:].removeprefix(","))
    return [text, whole + closing, *([text[:n_whole] + closing] if is_stump else [])]
