"""The texts of the system message and of the developer's, around what callers say.

The system message introduces the model to itself; what people call a system prompt is the
developer's message here. Knows no tokens.
"""

from collections.abc import Sequence
from datetime import datetime

from junto.chat.harmony.builtin_tools import builtin_sections
from junto.chat.harmony.settings import Settings
from junto.chat.harmony.typescript import Function, namespace

FUNCTIONS = "functions"
_CHANNELS = (
    "# Valid channels: analysis, commentary, final. Channel must be included for every message."
)
_CALLS = f"\nCalls to these tools must go to the commentary channel: '{FUNCTIONS}'."


def system_text(settings: Settings, now: datetime) -> str:
    """What the system message says; the line on calls stands there only with functions."""
    introduction = (
        f"{settings.identity}\n"
        f"Knowledge cutoff: {settings.knowledge_cutoff}\n"
        f"Current date: {now:%Y-%m-%d}"
    )
    tools = ["# Tools", *builtin_sections(settings.builtin)] if settings.builtin else []
    channels = _CHANNELS + (_CALLS if settings.functions else "")
    return "\n\n".join([introduction, f"Reasoning: {settings.effort}", *tools, channels])


def developer_text(instructions: str, functions: Sequence[Function] = ()) -> str:
    """What a developer's message says; empty where there is neither."""
    sections = ["# Instructions", instructions] if instructions else []
    if functions:
        sections += ["# Tools", namespace(FUNCTIONS, functions)]
    return "\n\n".join(sections)
