"""Answers for the tests: how to write them, cut them into tokens and have them read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from junto.chat.dialogue import Tool, Turn
from junto.chat.events import Event, FinishReason, message_of
from junto.chat.qwen import Qwen
from junto.chat.tokenizer import Tokenizer
from tests.chat.vocabularies import tiny_metadata

TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
THINKING = Turn(enable_thinking=True)
SILENT = Turn(enable_thinking=False)


def tiny_qwen_tokenizer(**changes: Any) -> Tokenizer:
    """256 bytes, some words, the family's control tokens and tags; no template."""
    metadata = tiny_metadata(**{"tokenizer__chat_template": None, **changes})
    tokens = metadata["tokenizer.ggml.tokens"]
    for tag in TAGS:
        if tag not in tokens:
            tokens.append(tag)
    kinds = [4 if token in TAGS else 1 for token in tokens]
    for i, token in enumerate(tokens):
        if token in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"):
            kinds[i] = 3
    metadata["tokenizer.ggml.token_type"] = kinds
    return Tokenizer.from_gguf(metadata, "tiny.gguf")


def tool(name: str, **properties: Any) -> Tool:
    """A function with typed parameters, as OpenAI's chat API writes it."""
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


WEATHER = tool("weather", city={"type": "string"}, days={"type": "integer"})
WRITE = tool("write", path={"type": "string"}, text={"type": "string"})
TOOLS = (WEATHER, WRITE)


@dataclass(frozen=True, slots=True)
class Read:
    """What a parser made of an answer."""

    reasoning: str
    content: str
    calls: list[tuple[str, Any]]
    reason: FinishReason | None
    n_repair: int


def read(
    qwen: Qwen,
    ids: Iterable[int],
    turn: Turn,
    reason: Literal["stop", "length"] = "stop",
) -> Read:
    """A whole answer; checks on the way what holds for any."""
    parser = qwen.parser((), turn)
    events: list[Event] = []
    for token_id in ids:
        events += parser.feed(token_id)
    events += parser.finish(reason)
    assert parser.finish() == []
    return summary(events, parser.n_repair)


def summary(events: Sequence[Event], n_repair: int) -> Read:
    """The message that the events tell; checks their form."""
    assert [event.kind for event in events].index("finish") == len(events) - 1
    for event in events:
        assert event.text or event.kind in ("tool_call", "finish")
    message = message_of(events)
    calls = [call["function"] for call in message.get("tool_calls", ())]
    arguments = [json.loads(call["arguments"]) for call in calls]
    assert all(isinstance(value, dict) for value in arguments)
    named = [(call["name"], value) for call, value in zip(calls, arguments, strict=True)]
    reasoning = message.get("reasoning_content", "")
    return Read(reasoning, message["content"], named, events[-1].reason, n_repair)


def by_bytes(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids of a text whose plain stretches are one token for each byte (of the tiny vocabulary)."""
    ids: list[int] = []
    for is_added, piece in tokenizer.split_added(text):
        ids += tokenizer.encode(piece, special=True) if is_added else piece.encode()
    return ids


def by_letters(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids of a text whose plain stretches are encoded letter by letter."""
    ids: list[int] = []
    for is_added, piece in tokenizer.split_added(text):
        for part in [piece] if is_added else piece:
            ids += tokenizer.encode(part, special=is_added)
    return ids


def xml_call(name: str, arguments: Mapping[str, str]) -> str:
    """A call as the template writes it."""
    parameters = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"
