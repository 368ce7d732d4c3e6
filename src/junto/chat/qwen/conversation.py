"""Messages as clients write them, brought to the one form that Qwen's templates read.

Afterwards every content is a text, developers are systems, reasoning stands in `reasoning_content`,
and arguments of calls are what the template's markup wants. Knows no tokens and no template.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from junto.chat.prompt import split_reasoning
from junto.chat.qwen import json_text
from junto.chat.template import Message
from junto.errors import TextError

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TEXT_PARTS = ("text", "input_text", "output_text")
_REASONING = ("reasoning_content", "reasoning", "thinking")  # OpenAI-like servers; Ollama


def prepared(messages: Sequence[Message], *, xml: bool) -> list[dict[str, Any]]:
    """The messages in plain form.

    xml   whether the template writes arguments as XML parameters (then they become objects), not as
          JSON (then arguments in a string stay as they were spelled)

    TextError, with the message's index, where one is not as it must be.
    """
    return [_message(message, f"messages[{i}]", xml) for i, message in enumerate(messages)]


def _message(message: Message, where: str, xml: bool) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise TextError(f"{where} is a {type(message).__name__}, expected role and content")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise TextError(f"{where}: role is {role!r:.40}, expected one of: {', '.join(_ROLES)}")
    plain = {**message, "role": _ROLES[role], "content": _text(message.get("content"), where)}
    return _answer(plain, where, xml) if role == "assistant" else plain


def _text(content: object, where: str) -> str:
    """A content's text; parts are joined as they are."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        kind = type(content).__name__
        raise TextError(f"{where}: content is a {kind}, expected a text or a list of text parts")
    return "".join(_part(part, f"{where}.content[{i}]") for i, part in enumerate(content))


def _part(part: object, where: str) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, Mapping) else type(part).__name__
    text = part.get("text") if isinstance(part, Mapping) and kind in _TEXT_PARTS else None
    if not isinstance(text, str):
        raise TextError(f"{where} is {kind!r:.40}; this build reads text only, no images or sound")
    return text


def _answer(message: dict[str, Any], where: str, xml: bool) -> dict[str, Any]:
    """An assistant's message with its reasoning apart and its calls in one form."""
    given = [message.pop(key, None) for key in _REASONING]
    reasoning = next((text for text in given if isinstance(text, str)), None)
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    message = dict(split_reasoning(message))
    if "reasoning_content" in message:
        message["reasoning_content"] = message["reasoning_content"].strip()
    calls = message.pop("tool_calls", None) or []
    if not isinstance(calls, list | tuple):
        raise TextError(f"{where}: tool_calls is a {type(calls).__name__}, expected a list")
    if calls:
        message["tool_calls"] = [
            _call(call, f"{where}.tool_calls[{i}]", xml) for i, call in enumerate(calls)
        ]
    return message


def _call(call: object, where: str, xml: bool) -> dict[str, Any]:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not name:
        raise TextError(f"{where}: no function name; expected {{function: {{name, arguments}}}}")
    arguments = _arguments(function.get("arguments"), where, xml)
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _arguments(arguments: object, where: str, xml: bool) -> Mapping[str, Any] | str:
    if arguments is None or arguments == "":
        return {}
    if isinstance(arguments, Mapping):
        return arguments
    try:
        if not isinstance(arguments, str):
            raise ValueError("neither text nor object")
        text = json_text.mended(arguments)
        members = json_text.items(text)
    except ValueError as error:
        raise TextError(
            f"{where}: arguments are {arguments!r:.60}, expected a JSON object"
        ) from error
    if not xml:
        return text
    return {key: _spelled(value, spelling) for key, (value, spelling) in members.items()}


def _spelled(value: Any, spelling: str) -> Any:
    """A value that the template writes as it was spelled, so that old turns keep their tokens.

    Except for booleans and null, which the template writes in its own way.
    """
    return value if value is None or isinstance(value, str | bool) else spelling
