"""Qwen's dialogue: conversations by the model's own template, and parsers for the answers.

On top of the template: system and developer messages stand anywhere, each in its place; a
conversation needs no user's message; reasoning of finished turns can be kept, so that each prompt
begins the next. Where a template allows these itself, its own text is what is written.

Of a turn's wishes, `enable_thinking` and the effort go to the template as variables. Qwen's own
templates know no effort: any effort means reasoning as usual, and only `enable_thinking=False`
switches it off.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from importlib.resources import files
from typing import Any

from junto.chat.dialogue import Turn
from junto.chat.prompt import prompt_ids
from junto.chat.qwen.blocks import Edit, Markup
from junto.chat.qwen.conversation import prepared
from junto.chat.qwen.marks import TAGS
from junto.chat.qwen.parser import QwenParser
from junto.chat.qwen.schema import functions
from junto.chat.template import Message
from junto.chat.tokenizer import Tokenizer
from junto.errors import TextError

# Source: Qwen's documentation, "Thinking budget".
BUDGET_SENTENCE = (
    "Considering the limited time by the user,"
    " I have to give the solution based on the thinking directly now."
)
_OWN_VARIABLES = frozenset(
    {"tokenizer", "template", "messages", "tools", "add_generation_prompt", "now", "timeout_s"}
)
_USER = {"role": "user", "content": "user"}


def family_template() -> str:
    """The template of Qwen3.5, for files that hold none."""
    return files("junto.chat.qwen").joinpath("qwen3.5.jinja").read_text("utf-8")


class Qwen:
    """Conversations with models of the Qwen family; see `junto.chat.dialogue.Dialogue`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Use the tokenizer's template, or that of Qwen3.5 where it has none (see `notes`).

        TextError where the vocabulary is not of the family.
        """
        self._markup = Markup.of(tokenizer)
        self.notes: tuple[str, ...] = ()
        if tokenizer.chat_template is None:
            tokenizer = copy(tokenizer)
            tokenizer.chat_template = family_template()
            self.notes = ("no chat template in the model file; using Qwen3.5's",)
        self._tokenizer = tokenizer
        self._template = tokenizer.chat_template or ""

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self._tokenizer.eos_ids

    def render(self, messages: Sequence[Message], turn: Turn) -> list[int]:
        """Token ids of a conversation, in which only the family's own markup is control tokens.

        With `preserve_reasoning` every answer keeps its reasoning, and one without has it empty, as
        a prompt without thinking writes it. TextError, in one line, where a message is not as it
        must be.
        """
        if not messages:
            raise TextError("messages: the list is empty; give one message at least")
        plain = prepared(messages, xml="<function=" in self._template)
        for_template, edits = self._stood_in(plain, turn.preserve_reasoning)
        if any(message["role"] == "user" for message in plain) or self._needs_no_user:
            return self._markup.edited(self._prompt(for_template, turn), edits)
        for_template.insert(int(for_template[0]["role"] == "system"), _USER)
        return self._without_user(self._markup.edited(self._prompt(for_template, turn), edits))

    def parser(self, messages: Sequence[Message] = (), turn: Turn | None = None) -> QwenParser:
        """A parser for the answer to a rendered conversation.

        What the prompt opens depends on the turn alone, so `messages` are not looked at.
        """
        turn = turn or Turn()
        return QwenParser(
            self._tokenizer,
            self._marks,
            self.stop_ids,
            functions(turn.tools),
            reasoning=self._opens_reasoning(turn),
            closing=self._closing,
        )

    def _stood_in(
        self, messages: list[dict[str, Any]], preserve: bool
    ) -> tuple[list[dict[str, Any]], list[Edit]]:
        """Messages that the template takes, and an edit for each that it sees as an assistant's."""
        for_template: list[dict[str, Any]] = []
        edits: list[Edit] = []
        for i, message in enumerate(messages):
            if message["role"] == "system" and i > 0 and not self._takes_system_anywhere:
                edits.append(self._markup.system(message["content"].strip()))
                message = {"role": "assistant", "content": "system"}
            elif message["role"] == "assistant":
                keeps = preserve and self._thinks
                reasoning = message.get("reasoning_content", "")
                edits.append(self._markup.with_reasoning(reasoning) if keeps else None)
            for_template.append(message)
        return for_template, edits

    def _prompt(self, messages: Sequence[Message], turn: Turn) -> list[int]:
        variables = dict(turn.variables)
        if clash := _OWN_VARIABLES & variables.keys():
            raise TextError(f"variables: {min(clash)!r} is not for the template; leave it out")
        if turn.enable_thinking is not None:
            variables["enable_thinking"] = turn.enable_thinking
        if turn.effort is not None:
            variables["reasoning_effort"] = turn.effort
        if turn.preserve_reasoning:
            variables["preserve_thinking"] = True
        return prompt_ids(
            self._tokenizer,
            messages,
            add_generation_prompt=turn.add_generation_prompt,
            tools=list(turn.tools) or None,
            **variables,
        )

    def _without_user(self, ids: list[int]) -> list[int]:
        """The ids without the first user's message and the line's end behind it."""
        blocks = self._markup.blocks(ids)
        first, last = next((first, last) for first, last, role in blocks if role == "user")
        behind = last + 1
        while behind < len(ids) and not self._tokenizer.is_added(ids[behind]):
            behind += 1
        return ids[: first - 1] + ids[behind:]

    @cached_property
    def _thinks(self) -> bool:
        has_tokens = self._markup.think is not None and self._markup.end_think is not None
        return has_tokens and "<think>" in self._template

    @cached_property
    def _takes_system_anywhere(self) -> bool:
        """Whether the template writes a later system message in its place."""
        messages = [_USER, {"role": "system", "content": "system"}, _USER]
        return self._roles(messages) == ["user", "system", "user"]

    @cached_property
    def _needs_no_user(self) -> bool:
        """Whether the template takes a conversation without a user's message."""
        return self._roles([{"role": "assistant", "content": "assistant"}]) == ["assistant"]

    def _roles(self, messages: list[dict[str, str]]) -> list[str]:
        """Roles that the template writes for some messages; none where it refuses them."""
        try:
            ids = self._prompt(messages, Turn(add_generation_prompt=False))
        except TextError:
            return []
        return [role for _, _, role in self._markup.blocks(ids)]

    def _opens_reasoning(self, turn: Turn) -> bool:
        ids = self._prompt([_USER], replace(turn, tools=())) if self._thinks else []
        marks = [i for i in ids if i in (self._markup.think, self._markup.end_think)]
        return marks[-1:] == [self._markup.think]

    @cached_property
    def _marks(self) -> Mapping[int, str]:
        """Ids of the markup tokens of answers that the vocabulary has -> their marks."""
        ids = {mark: self._tokenizer.added_id(tag) for mark, tag in TAGS.items()}
        return {i: mark for mark, i in ids.items() if i is not None}

    @cached_property
    def _closing(self) -> tuple[list[int], list[int]]:
        """Ids that end reasoning before there is any, and in the midst of it."""
        if self._markup.end_think is None:
            return [], []
        end = [self._markup.end_think, *self._markup.plain("\n\n")]
        return (
            [*self._markup.plain("\n"), *end],
            [*self._markup.plain(f"\n\n{BUDGET_SENTENCE}\n"), *end],
        )
