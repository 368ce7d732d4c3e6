"""Checked reading of what clients send: messages, calls and tools in the form of OpenAI's chat API.

Every mistake is told in one line that names the place, what is expected there and what was found.
Knows nothing of harmony but which characters a name may hold.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from junto.errors import TextError

REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
_ODD_IN_NAME = re.compile(r"[^\w.\-]")


def _shown(value: object) -> str:
    return f"{value!r:.60}"


def as_mapping(value: object, where: str) -> Mapping[str, Any]:
    """The value, an object; TextError where it is none."""
    if not isinstance(value, Mapping):
        raise TextError(f"{where}: expected an object, got {_shown(value)}")
    return value


def as_list(value: object, where: str) -> Sequence[Any]:
    """The value, a list, or an empty one for None; TextError where it is none."""
    if value is None:
        return ()
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise TextError(f"{where}: expected a list, got {_shown(value)}")
    return value


def as_text(value: object, where: str) -> str:
    """The value, a text; TextError where it is none."""
    if not isinstance(value, str):
        raise TextError(f"{where}: expected a text, got {_shown(value)}")
    return value


def _text_of_part(part: object, where: str) -> str:
    if isinstance(part, str):
        return part
    fields = as_mapping(part, where)
    for name in ("text", "refusal"):
        if isinstance(fields.get(name), str):
            return str(fields[name])
    kind = fields.get("type")
    raise TextError(f"{where}: type is {_shown(kind)}; gpt-oss reads parts of type 'text' alone")


def text_of_content(message: Mapping[str, Any], where: str, *, may_lack: bool = False) -> str:
    """The text of a message: a string, or the parts of a list joined.

    may_lack   None and a missing content are an empty text

    TextError where the content is something else, or a part is no text.
    """
    content = message.get("content")
    where = f"{where}.content"
    if content is None and may_lack:
        return ""
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        return "".join(_text_of_part(part, f"{where}[{i}]") for i, part in enumerate(content))
    return as_text(content, where)


def text_of_reasoning(message: Mapping[str, Any], where: str) -> str:
    """The reasoning of an assistant's message, under whichever name it comes; empty without."""
    for name in REASONING_FIELDS:
        if message.get(name) is not None:
            return as_text(message[name], f"{where}.{name}")
    return ""


def text_of_arguments(arguments: object, where: str) -> str:
    """Arguments of a call as JSON text, which is what they mostly are already."""
    if arguments is None or arguments == "":
        return "{}"
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(dict(as_mapping(arguments, where)), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TextError(f"{where}: cannot be written as JSON ({error!s:.60})") from error


def plain_name(name: str) -> str:
    """A function's name in old calls, with what no name may hold exchanged for '_'.

    Models write odd names now and then; a conversation that holds one must go on.
    """
    return _ODD_IN_NAME.sub("_", name.removeprefix("functions."))


def checked_name(value: object, where: str) -> str:
    """The name of a tool that is offered; TextError where the model could not call it so."""
    name = as_text(value, where)
    if not name or _ODD_IN_NAME.search(name):
        raise TextError(
            f"{where}: {_shown(name)} is no name of a function; use letters, digits, '_', '-', '.'"
        )
    return name
