"""Chat templates: from messages to the text that a model was trained on.

A template comes from a model file and is treated as hostile: it runs in `BoundedEnvironment` with a
deadline. Knows no tokens; `prompt` keeps what people wrote apart from what the template wrote.

Source: the conventions of Hugging Face chat templates (variables, `raise_exception`,
`strftime_now`, `tojson`).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import jinja2

from junto.chat.bounds import BUDGET, MAX_CHARS, Budget, Exceeded
from junto.chat.provenance import Traced
from junto.chat.sandbox import BoundedEnvironment
from junto.errors import TextError

TIMEOUT_S = 3.0
MAX_SOURCE_CHARS = 200_000

Message = Mapping[str, Any]


class _Raised(Exception):
    """The template called raise_exception."""


def _raise_exception(message: object) -> None:
    raise _Raised(str(message))


@lru_cache(maxsize=1)
def _environment() -> BoundedEnvironment:
    return BoundedEnvironment()


@lru_cache(maxsize=16)
def _compiled(source: str) -> jinja2.Template:
    if len(source) > MAX_SOURCE_CHARS:
        raise TextError(f"chat template: {len(source)} characters, at most {MAX_SOURCE_CHARS}")
    try:
        return _environment().from_string(source)
    except jinja2.TemplateSyntaxError as error:
        raise TextError(f"chat template, line {error.lineno}: {error.message:.200}") from error
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        raise TextError("chat template: too deeply nested to compile") from error


def _with_thinking(message: Message) -> Message:
    """Reasoning under both names that templates know it by."""
    if "reasoning_content" in message and "thinking" not in message:
        return {**message, "thinking": message["reasoning_content"]}
    return message


def _write(template: jinja2.Template, variables: Mapping[str, Any]) -> Traced:
    pieces: list[str] = []
    n_written = 0
    for piece in template.generate(variables):
        n_written += len(piece)
        if n_written > MAX_CHARS:
            raise Exceeded(f"it writes more than {MAX_CHARS} characters")
        pieces.append(piece)
    return BoundedEnvironment.concat(pieces)


def render(
    template: str,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    tools: Sequence[Mapping[str, Any]] | None = None,
    now: datetime | None = None,
    timeout_s: float = TIMEOUT_S,
    **variables: Any,
) -> Traced:
    """The text of a conversation, which knows what in it the template wrote itself.

    template    Jinja2 source
    messages    {role, content, ...}; `reasoning_content` is offered as `thinking` too
    tools       JSON schemas of functions, or None
    now         what `strftime_now` tells; the clock by default
    timeout_s   wall time after which the template is stopped
    variables   further variables (enable_thinking, bos_token, ...)

    Every `str` in messages, tools and variables is foreign, except where it is a `Traced` of the
    template's own.

    TextError, in one line, where the template is broken, refuses the conversation, reaches for
    what the sandbox keeps from it, or does too much.
    """
    moment = now or datetime.now()
    values = {
        "messages": [_with_thinking(message) for message in messages],
        "tools": tools,
        "documents": None,
        "add_generation_prompt": add_generation_prompt,
        "raise_exception": _raise_exception,
        "strftime_now": lambda form: moment.strftime(str(form)[:200]),
        **variables,
    }
    compiled = _compiled(template)
    budget = BUDGET.set(Budget(timeout_s))
    try:
        return _write(compiled, values)
    except _Raised as error:
        raise TextError(f"chat template refuses the conversation: {_line(error)}") from error
    except Exceeded as error:
        raise TextError(f"chat template stopped: {_line(error)}") from error
    except RecursionError as error:
        raise TextError("chat template stopped: it calls itself without end") from error
    except Exception as error:  # a template can raise whatever Python can
        raise TextError(f"chat template failed: {type(error).__name__}: {_line(error)}") from error
    finally:
        BUDGET.reset(budget)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
