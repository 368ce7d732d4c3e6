"""What an answer consists of while it comes, whatever family wrote it.

The events of an answer, in order: any number of `reasoning`, `content` and `tool_call`, then one
`finish`. Texts and argument deltas joined equal what parsing the whole answer gives. Knows no
tokens.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

EventKind = Literal["reasoning", "content", "tool_call", "finish"]
FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Event:
    """One step of an answer.

    kind        what the other fields say
    text        reasoning, content: the next characters, never empty
    index       tool_call: which call of the answer, from 0
    name        tool_call: the function, on the first event of a call; else empty
    arguments   tool_call: next characters of a JSON object; deltas joined are valid JSON
    reason      finish: why the answer ends
    """

    kind: EventKind
    text: str = ""
    index: int = 0
    name: str = ""
    arguments: str = ""
    reason: FinishReason | None = None


def message_of(events: Iterable[Event]) -> dict[str, Any]:
    """The assistant's message that the events tell, as OpenAI's chat API writes it.

    Keys: role and content always; `reasoning_content` and `tool_calls` where there are any.
    """
    reasoning: list[str] = []
    content: list[str] = []
    calls: list[dict[str, str]] = []
    for event in events:
        match event.kind:
            case "reasoning":
                reasoning.append(event.text)
            case "content":
                content.append(event.text)
            case "tool_call":
                if event.index == len(calls):
                    calls.append({"name": "", "arguments": ""})
                calls[event.index]["name"] += event.name
                calls[event.index]["arguments"] += event.arguments
            case "finish":
                pass
    message: dict[str, Any] = {"role": "assistant", "content": "".join(content)}
    if reasoning:
        message["reasoning_content"] = "".join(reasoning)
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": call}
            for i, call in enumerate(calls)
        ]
    return message
