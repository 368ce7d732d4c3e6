"""Parameter values between XML tags, as JSON of the type that the tool's schema asks for.

The rule: text becomes another type only where the schema allows it, and stays a string otherwise.
  no schema for the parameter   a string, whatever it looks like
  string                        a string, even where it looks like a number
  string and other types        another type where the text spells one, else a string
  "any" (no type in the schema) JSON where the text is JSON, else a string
Booleans and null may be spelled as in Python, since the template writes them so.
"""

import ast
import re
from dataclasses import dataclass

from junto.chat.qwen import json_text
from junto.chat.qwen.schema import ANY, Types

STRING: Types = frozenset({"string"})
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDS = {"true": "boolean", "false": "boolean", "null": "null", "none": "null"}
_MAX_LITERAL_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Value:
    """One argument as JSON; `mended` where the text was not quite what the schema asks for."""

    json: str
    mended: bool = False


def typed(text: str, types: Types | None) -> Value:
    """JSON of a value; always valid, and a string where nothing else is meant."""
    if types is None or types == STRING:
        return Value(json_text.dumps(text))
    found = _word(text, types) or _number(text, types) or _structure(text, types)
    if found is None:
        return Value(json_text.dumps(text), mended=types.isdisjoint(STRING | ANY))
    return found


def _word(text: str, types: Types) -> Value | None:
    word = text.strip().lower()
    kind = _WORDS.get(word)
    if kind is None or not types & {kind, "any"}:
        return None
    if types == ANY and word != text.strip():  # 'True' is JSON for nobody
        return None
    return None if types == ANY and word == "none" else Value("null" if kind == "null" else word)


def _number(text: str, types: Types) -> Value | None:
    if not types & {"integer", "number", "any"}:
        return None
    spelled = text.strip()
    try:
        if _NUMBER.fullmatch(spelled):
            json_text.loads(spelled)  # refuses thousands of digits, as every reader would
            return Value(spelled)
        if types & (STRING | ANY) or not re.fullmatch(r"[+-]?[0-9._]+", spelled):
            return None
        number = int(spelled) if "." not in spelled else float(spelled)
        return Value(json_text.dumps(number), mended=True)
    except ValueError:
        return None


def _structure(text: str, types: Types) -> Value | None:
    spelled = text.strip()
    if not types & {"array", "object", "any"}:
        return None
    if spelled[:1] not in ("[", "{") and not (types & ANY and spelled[:1] == '"'):
        return None
    try:
        json_text.loads(spelled)
        return Value(spelled)
    except ValueError:
        return None if types & (STRING | ANY) else _sloppy(spelled)


def _sloppy(text: str) -> Value | None:
    """A list or object that is cut, or written as Python writes it."""
    try:
        return Value(json_text.mended(text), mended=True)
    except ValueError:
        pass
    if "\\" in text or len(text) > _MAX_LITERAL_CHARS:
        return None
    try:
        return Value(json_text.dumps(ast.literal_eval(text)), mended=True)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
