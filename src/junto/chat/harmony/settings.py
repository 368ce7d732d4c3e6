"""What a turn says about the system message and the tools, checked once.

Knows the variables that gpt-oss's own template knows; others are refused, not ignored.
"""

from dataclasses import dataclass

from junto.chat.dialogue import Tool, Turn
from junto.chat.harmony.builtin_tools import BUILTIN_NAMES
from junto.chat.harmony.fields import as_list, as_mapping, as_text, checked_name
from junto.chat.harmony.typescript import Function
from junto.errors import TextError

IDENTITY = "You are ChatGPT, a large language model trained by OpenAI."
KNOWLEDGE_CUTOFF = "2024-06"
EFFORTS = ("low", "medium", "high")
VARIABLES = ("model_identity", "knowledge_cutoff", "reasoning_effort", "builtin_tools")


@dataclass(frozen=True, slots=True)
class Settings:
    """How the model is introduced to itself, and the tools that it may call."""

    identity: str
    knowledge_cutoff: str
    effort: str
    builtin: tuple[str, ...]
    functions: tuple[Function, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of the functions."""
        return frozenset(function.name for function in self.functions)

    @staticmethod
    def of(turn: Turn) -> "Settings":
        """The settings of a turn; TextError where a variable or a tool is not as it must be."""
        variables = turn.variables
        for name in variables:
            if name not in VARIABLES:
                raise TextError(f"harmony: unknown variable {name!r:.40}; known: {VARIABLES}")
        effort = turn.effort or variables.get("reasoning_effort") or "medium"
        if effort not in EFFORTS:
            raise TextError(f"harmony: effort is {effort!r:.40}, expected one of {EFFORTS}")
        cutoff = variables.get("knowledge_cutoff", KNOWLEDGE_CUTOFF)
        return Settings(
            as_text(variables.get("model_identity", IDENTITY), "model_identity"),
            as_text(cutoff, "knowledge_cutoff"),
            effort,
            _builtin(variables.get("builtin_tools")),
            tuple(_function(tool, f"tools[{i}]") for i, tool in enumerate(turn.tools)),
        )


def _builtin(value: object) -> tuple[str, ...]:
    names = as_list(value, "builtin_tools")
    for name in names:
        if name not in BUILTIN_NAMES:
            raise TextError(f"builtin_tools: {name!r:.40}, expected some of {BUILTIN_NAMES}")
    return tuple(names)


def _function(tool: Tool, where: str) -> Function:
    """A tool in the form of OpenAI's API, or the function in it alone."""
    fields = as_mapping(tool, where)
    if "function" in fields:
        where = f"{where}.function"
        fields = as_mapping(fields["function"], where)
    name = checked_name(fields.get("name"), f"{where}.name")
    description, parameters = fields.get("description"), fields.get("parameters")
    return Function(
        name,
        "" if description is None else as_text(description, f"{where}.description"),
        None if parameters is None else as_mapping(parameters, f"{where}.parameters"),
    )
