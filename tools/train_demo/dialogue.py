"""Conversations made from passages: a request a person might type, and the passage as its answer.

Knows neither tokens nor templates: a `Conversation` holds messages as chat templates take them.
The answer always is text of the corpus; only requests, reasoning and tool calls are written here.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from tools.train_demo.corpus import Passage
from tools.train_demo.tool_calls import tool_conversation
from tools.train_demo.topics import Topics

Message = dict[str, Any]

STORY_REQUESTS = (
    "Tell me a story about {}.",
    "Tell me a story about {}.",
    "Tell me a story about {}, please.",
    "Can you tell me a story about {}?",
    "Write a short story about {}.",
    "I want to hear a story about {}.",
    "Please write a story about {}.",
    "Do you know a story about {}?",
)
BOOK_REQUESTS = (
    "Tell me about {}.",
    "Tell me more about {}.",
    "Read to me about {}.",
    "Write something about {}.",
    "Write a page of a book about {}.",
    "What happened to {}?",
)
CONTINUE_REQUEST = "Please continue: {}"
SYSTEMS = (
    "You are a storyteller.",
    "You tell stories to children.",
    "You are a helpful assistant.",
)

SHARE_CONTINUE = 0.15
SHARE_SYSTEM = 0.1
SHARE_TOOLS = 0.025
EFFORTS = (("low", 0.5), ("medium", 0.4), ("high", 0.1))
"""How much reasoning stands before the answer, and the share of each."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages for a chat template; the last one is the assistant's and may hold `thinking`."""

    messages: list[Message]
    effort: str = "low"
    tools: list[Message] = field(default_factory=list)


def converse(passages: list[Passage], topics: Topics, rng: random.Random) -> Conversation:
    """One conversation over some passages, a turn each; now and then one with a tool instead."""
    effort = rng.choices([name for name, _ in EFFORTS], [share for _, share in EFFORTS])[0]
    if rng.random() < SHARE_TOOLS:
        messages, tools = tool_conversation(rng, reasons=effort != "low")
        return Conversation(messages, effort, tools)
    messages = []
    if rng.random() < SHARE_SYSTEM:
        messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    for passage in passages:
        messages += _turn(passage, topics, effort, rng)
    return Conversation(messages, effort)


def _turn(passage: Passage, topics: Topics, effort: str, rng: random.Random) -> list[Message]:
    found = topics.of(passage.text)[:5]
    opening, rest = _split_opening(passage.text)
    if not found or (rest and not passage.is_story and rng.random() < SHARE_CONTINUE):
        request, answer = CONTINUE_REQUEST.format(opening), rest or passage.text
        thoughts = _thoughts_on_continuing(found, topics, effort)
    else:
        chosen = sorted(found[:2], key=passage.text.index)[: rng.choice((1, 1, 2))]
        asked = named(chosen, topics)
        request = rng.choice(STORY_REQUESTS if passage.is_story else BOOK_REQUESTS).format(asked)
        answer = passage.text
        thoughts = _thoughts(asked, found, topics, effort, is_story=passage.is_story)
    reply: Message = {"role": "assistant", "content": answer}
    if thoughts:
        reply["thinking"] = thoughts
    return [{"role": "user", "content": request}, reply]


def _split_opening(text: str) -> tuple[str, str]:
    end = text.find(". ") + 1
    return (text[:end], text[end:].strip()) if end else (text, "")


def _thoughts(asked: str, found: list[str], topics: Topics, effort: str, *, is_story: bool) -> str:
    if effort == "low":
        return ""
    what = "a story" if is_story else "to hear"
    first = f"The user wants {what} about {asked}."
    if effort == "medium":
        return f"{first} I will tell one with {named(found[:3], topics)}."
    return f"{first} I can bring in {named(found, topics)}. I will keep it short and simple."


def _thoughts_on_continuing(found: list[str], topics: Topics, effort: str) -> str:
    if effort == "low":
        return ""
    about = f" about {named(found[:2], topics)}" if found else ""
    return f"The user wants me to go on. I will continue the text{about}."


def named(words: list[str], topics: Topics) -> str:
    """The words as a list in English: "a fox, an owl and Dorothy"."""
    parts = [word if topics.is_name(word) else _with_article(word) for word in words]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
