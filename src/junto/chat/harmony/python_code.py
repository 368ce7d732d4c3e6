"""Calls of the builtin tool python, whose text is code and no JSON.

In OpenAI's form the code is one argument: {"code": "..."}. Both ways are here, the way from the
model piece by piece. Invariant: deltas joined are a JSON object, wherever the code is cut.
"""

import json

_OPENING, _CLOSING = '{"code": "', '"}'


class CodeArguments:
    """Arguments of one call, while its code comes."""

    n_repair = 0

    def __init__(self) -> None:
        self._is_open = False

    def feed(self, text: str) -> str:
        """The characters of the arguments that this code adds."""
        opening = "" if self._is_open else _OPENING
        self._is_open = True
        return opening + json.dumps(text, ensure_ascii=False)[1:-1]

    def finish(self) -> str:
        """The characters that complete the arguments."""
        return ("" if self._is_open else _OPENING) + _CLOSING


def code_of_arguments(arguments: str) -> str:
    """The code in the arguments of an old call; arguments of another form as they are."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    code = value.get("code") if isinstance(value, dict) else None
    return code if isinstance(code, str) else arguments
