"""Tool calls in JSON, as Qwen3 writes them: {"name": "NAME", "arguments": {...}}.

A call is read when it is whole, since the name may come last. Cut and sloppy JSON is mended; what
cannot be is no call, and stays text.
"""

import re
from dataclasses import dataclass
from typing import Any

from junto.chat.qwen import json_text
from junto.chat.qwen.ahead import Ahead
from junto.chat.qwen.answer import Answer
from junto.chat.qwen.marks import CALL, END, END_CALL, MARKS, Source, Wait, spelled

_WHOLE_NAME = re.compile(r'"name"\s*:\s*"(?:[^"\\]|\\.)*"')
_STOP = re.compile(f'["\\\\{{}}\\[\\]{MARKS}]')


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: str
    mended: bool


def json_end(source: Source, ahead: Ahead) -> Wait[int]:
    """Offset behind the JSON object that a source begins with, or of what cuts it."""
    i, depth, quoted = 0, 0, False
    while True:
        found = _STOP.search(source.text, i)
        if found is None:
            i = len(source.text)
            yield
            continue
        i = found.start()
        match found[0]:
            case "\\" if quoted:
                i += (yield from source.at(i + 1)) not in MARKS
            case '"':
                quoted = not quoted
            case "{" | "[" if not quoted:
                depth += 1
            case "}" | "]" if not quoted:
                depth -= 1
                if depth <= 0:
                    return i + 1
            case mark if mark == END or (mark in (CALL, END_CALL) and not quoted):
                return i
            case mark if mark in (CALL, END_CALL) and (yield from ahead.leaves_value(i)):
                return i
        i += 1


def read_json_call(source: Source, answer: Answer, ahead: Ahead) -> Wait[bool]:
    """Read a call; False, with nothing read, where it is none."""
    n = yield from json_end(source, ahead)
    call = _call(spelled(source.text[:n]))
    if call is None:
        return False
    source.take(n)
    answer.repair(call.mended)
    index = answer.call(call.name)
    answer.arguments(index, call.arguments)
    yield from _read_surplus(source, answer)
    return True


def _read_surplus(source: Source, answer: Answer) -> Wait[None]:
    """Read closing brackets too many, if the call ends behind them."""
    i = yield from source.blank_end(0)
    start = i
    while (yield from source.at(i)) in "}]" and i < start + 8:
        i += 1
    if i > start:
        end = yield from source.blank_end(i)
        if (yield from source.at(end)) in (END_CALL, END):
            answer.repair()
            source.take(i)


def _call(text: str) -> _Call | None:
    try:
        whole = json_text.mended(text)
        found = json_text.items(whole)
    except ValueError:
        return None
    name = found.get("name", (None, ""))[0]
    if not isinstance(name, str) or not name or not _WHOLE_NAME.search(text):
        return None
    key = "arguments" if "arguments" in found else "parameters"
    try:
        arguments = _arguments(*found.get(key, ({}, "{}")))
    except ValueError:
        return None
    mended = whole != text.strip() or key not in found or key == "parameters"
    return _Call(name, arguments, mended)


def _arguments(value: Any, spelling: str) -> str:
    """The arguments as they were spelled: an object, one within a string, or nothing.

    ValueError where they are something else.
    """
    if value is None or value == "":
        return "{}"
    text = json_text.mended(value) if isinstance(value, str) else spelling
    json_text.items(text)
    return text
