"""How a family writes conversations: the interface of harmony, Qwen's markup, plain templates.

A dialogue renders messages to token ids and makes a parser for each answer. A parser never raises:
whatever a model writes is kept as text, and what had to be mended is counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from junto.chat.events import Event
from junto.chat.template import Message

Effort = Literal["low", "medium", "high"]
Tool = Mapping[str, Any]
"""A function's JSON schema as OpenAI's chat API has it: {type: "function", function: {...}}."""


@dataclass(frozen=True, slots=True)
class Turn:
    """How the next answer is asked for.

    tools                   functions the model may call
    add_generation_prompt   end with the beginning of the assistant's turn
    enable_thinking         False: no reasoning, where the family can; None: its default
    effort                  how long to reason, where the family can say it; None: its default
    preserve_reasoning      keep reasoning of finished turns, so each prompt begins the next
    variables               further variables of a chat template
    """

    tools: Sequence[Tool] = ()
    add_generation_prompt: bool = True
    enable_thinking: bool | None = None
    effort: Effort | None = None
    preserve_reasoning: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)


class Parser(Protocol):
    """Reads one answer, token by token."""

    n_repair: int
    """What had to be mended so far: missing or misplaced markup, arguments that were no JSON."""

    def feed(self, token_id: int) -> list[Event]:
        """What this token makes certain; nothing after the end of the answer."""
        ...

    def finish(self, reason: Literal["stop", "length"] = "stop") -> list[Event]:
        """What was held back, and the `finish` event ("tool_calls" where the answer calls any)."""
        ...

    def close_reasoning(self) -> list[int]:
        """Token ids that end open reasoning in the family's way; none where none is open.

        To be fed to the model and to this parser by a caller whose thinking budget is spent.
        """
        ...


class Dialogue(Protocol):
    """One family's way to write conversations."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the file lacks and how that is met, one line each."""
        ...

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    def render(self, messages: Sequence[Message], turn: Turn) -> list[int]:
        """Token ids of a conversation, in which only the family's own markup is control tokens.

        TextError, in one line, where a message is not as it must be.
        """
        ...

    def parser(self, messages: Sequence[Message] = (), turn: Turn | None = None) -> Parser:
        """A parser for the answer to a rendered conversation (whose prompt may open reasoning)."""
        ...
