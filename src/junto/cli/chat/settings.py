"""How a chat asks for answers, as it is typed, saved and read back.

A value may come from the command line, a command of the chat, or a file; whatever its way, it has
the type that its field declares. Ranges are checked where the model is asked.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from junto.chat.dialogue import Effort
from junto.errors import FormatError


@dataclass(slots=True)
class Settings:
    """Arguments of `Model.chat`; None leaves a thing to the model."""

    enable_thinking: bool | None = None
    effort: Effort | None = None
    thinking_budget: int | None = None
    preserve_reasoning: bool = False
    n_predict: int | None = None
    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int | None = None
    stop: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All fields by name."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(values: Mapping[str, Any], place: str) -> "Settings":
        """Settings that a file holds; what it leaves out keeps its default.

        FormatError, which begins with `place`, for an unknown name or a value of a wrong type.
        """
        types = get_type_hints(Settings)
        for name, value in values.items():
            if name not in types:
                raise FormatError(f"{place}: unknown setting {name!r:.40}")
            if not _fits(value, types[name]):
                raise FormatError(f"{place}: setting {name!r} is {value!r:.40}")
        given: dict[str, Any] = dict(values)
        if "stop" in given:
            given["stop"] = tuple(given["stop"])
        return Settings(**given)


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value of JSON is of a field's type; a whole number may stand for a float."""
    if get_origin(wanted) is Literal:
        return value in get_args(wanted)
    if get_origin(wanted) is tuple:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)
    if get_args(wanted):
        return any(_fits(value, choice) for choice in get_args(wanted))
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, int | float if wanted is float else wanted)
