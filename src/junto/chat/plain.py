"""Conversations of a family that is not known here: the file's own template, and answers as text.

An answer is content, whatever it holds; control tokens never show. Neither reasoning nor tool calls
are looked for, since nothing says how this family would write them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from junto.chat.detokenizer import StreamDecoder
from junto.chat.dialogue import Turn
from junto.chat.events import Event
from junto.chat.prompt import prompt_ids
from junto.chat.template import Message
from junto.chat.tokenizer import Tokenizer
from junto.errors import TextError


def _with_text(message: Message, index: int) -> Message:
    """The message with one text as its content; parts that are no text are left to the template."""
    if not isinstance(message, Mapping):
        raise TextError(
            f"messages[{index}] is a {type(message).__name__}, expected role and content"
        )
    content = message.get("content")
    if isinstance(content, list) and all(map(_is_text, content)):
        content = "".join(part["text"] for part in content)
    return {**message, "content": "" if content is None else content}


def _is_text(part: object) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)


class PlainTemplate:
    """A `Dialogue` by the template of the file."""

    notes: tuple[str, ...] = ()

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @property
    def stop_ids(self) -> frozenset[int]:
        """The tokens that the file ends answers with."""
        return self._tokenizer.eos_ids

    def render(self, messages: Sequence[Message], turn: Turn) -> list[int]:
        """Token ids as the template writes them; TextError where there is none, or it refuses.

        Content in parts of text becomes one text, and a missing one empty: few templates know more.
        The template sees `enable_thinking` and `reasoning_effort` where the turn says them; what
        it does with reasoning of old turns is its own affair.
        """
        named = {"enable_thinking": turn.enable_thinking, "reasoning_effort": turn.effort}
        said: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        return prompt_ids(
            self._tokenizer,
            [_with_text(message, i) for i, message in enumerate(messages)],
            add_generation_prompt=turn.add_generation_prompt,
            tools=turn.tools or None,
            **(said | dict(turn.variables)),
        )

    def parser(self, messages: Sequence[Message] = (), turn: Turn | None = None) -> "PlainParser":
        """A parser, which is the same for every conversation."""
        return PlainParser(self._tokenizer, self.stop_ids)


class PlainParser:
    """A `Parser` to which all text is content."""

    n_repair = 0

    def __init__(self, tokenizer: Tokenizer, stop_ids: frozenset[int]) -> None:
        self._decoder = StreamDecoder(tokenizer)
        self._stop_ids = stop_ids
        self._ended = False

    def feed(self, token_id: int) -> list[Event]:
        """The text that this token makes certain; nothing from an end token on."""
        self._ended |= token_id in self._stop_ids
        text = "" if self._ended else self._decoder.feed(token_id)
        return [Event("content", text)] if text else []

    def finish(self, reason: Literal["stop", "length"] = "stop") -> list[Event]:
        """The rest of a character that never came, and the `finish` event."""
        text = self._decoder.finish()
        rest = [Event("content", text)] if text else []
        return [*rest, Event("finish", reason=reason)]

    def close_reasoning(self) -> list[int]:
        """Nothing: reasoning is not told from content."""
        return []
