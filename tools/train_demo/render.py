"""Conversations as the family's own chat template writes them, and as weighted tokens.

Knows the template's conventions (what reasoning is called, what a template may call), nothing of
batches or models. Rendering equals what the chat template of the exported model gives.
"""

import datetime
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from tools.train_demo.dialogue import Conversation
from tools.train_demo.family import Family

PROMPT_WEIGHT = 0.1
"""Loss weight of tokens that the model never has to write itself."""


@dataclass(frozen=True, slots=True)
class Document:
    """Token ids and, for each, how much predicting it counts; a plain one may be cut anywhere."""

    ids: list[int]
    weights: list[float]
    is_plain: bool = False


class Renderer:
    """Turns texts and conversations of one family into documents."""

    def __init__(self, family: Family, template: str, tokenizer: Tokenizer | None) -> None:
        self.family = family
        self.tokenizer = tokenizer
        self.template = compile_template(template)

    def text(self, conversation: Conversation, rng: random.Random) -> str:
        """The conversation as text, on a date of its own.

        Raises jinja2.TemplateError if the template refuses it.
        """
        day = datetime.date(2024, 6, 1) + datetime.timedelta(days=rng.randrange(1800))
        return self.template.render(
            messages=[_spelt_for(self.family, message) for message in conversation.messages],
            tools=conversation.tools or None,
            reasoning_effort=conversation.effort,
            strftime_now=day.strftime,
            add_generation_prompt=False,
        )

    def document(self, conversation: Conversation, rng: random.Random) -> Document:
        """A conversation as tokens; what the assistant wrote has weight 1."""
        text = self.text(conversation, rng)
        spans = [found.span() for found in self.family.answers.finditer(text)]
        encoding = self._encode(text)
        is_answer = bytearray(len(text) + 1)
        for start, end in spans:
            is_answer[start:end] = b"\1" * (end - start)
        weights = [1.0 if is_answer[start] else PROMPT_WEIGHT for start, _ in encoding.offsets]
        return Document(encoding.ids, weights)

    def plain(self, text: str) -> Document:
        """Running text between the family's text markers; every token has weight 1."""
        ids = self._encode(self.family.before + text + self.family.after).ids
        return Document(ids, [1.0] * len(ids), is_plain=True)

    def _encode(self, text: str) -> Any:
        assert self.tokenizer is not None, "rendering to tokens needs a tokenizer"
        return self.tokenizer.encode(text, add_special_tokens=False)


def compile_template(source: str) -> jinja2.Template:
    """A chat template with the functions that published templates expect."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _refuse
    return environment.from_string(source)


def _tojson(value: object, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **options)


def _refuse(message: str) -> Callable[[], None]:
    raise jinja2.TemplateError(message)


def _spelt_for(family: Family, message: dict[str, Any]) -> dict[str, Any]:
    """The message with its reasoning under the name the family's template reads."""
    if family.name == "qwen35moe" and "thinking" in message:
        renamed = dict(message)
        renamed["reasoning_content"] = renamed.pop("thinking")
        return renamed
    return message
