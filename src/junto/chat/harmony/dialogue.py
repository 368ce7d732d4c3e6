"""The harmony dialogue of gpt-oss: renders conversations, and makes parsers for their answers."""

from collections.abc import Sequence
from datetime import datetime

from junto.chat.dialogue import Turn
from junto.chat.harmony.conversation import harmony_messages
from junto.chat.harmony.header import ASSISTANT, Header
from junto.chat.harmony.markup import Mark, Markup
from junto.chat.harmony.message import written
from junto.chat.harmony.parser import HarmonyParser
from junto.chat.harmony.reader import MessageReader
from junto.chat.harmony.settings import Settings
from junto.chat.template import Message
from junto.chat.tokenizer import Tokenizer

_ANSWER = (Mark.START, ASSISTANT)
_FINAL = (Mark.CHANNEL, "final", Mark.MESSAGE)
_NO_REASONING = (Mark.CHANNEL, "analysis", Mark.MESSAGE, Mark.END)


class Harmony:
    """A `Dialogue`, as gpt-oss was trained to hold it."""

    def __init__(self, tokenizer: Tokenizer, *, now: datetime | None = None) -> None:
        """Write with the tokens of `tokenizer`.

        now   the date that the system message tells; the clock's at each rendering by default

        A template of the file is never used; `notes` says where there is none. TextError where the
        vocabulary lacks harmony's control tokens.
        """
        self._tokenizer = tokenizer
        self._markup = Markup.of(tokenizer)
        self._now = now
        self.notes: tuple[str, ...] = ()
        if tokenizer.chat_template is None:
            self.notes = ("no chat template in the model file; using gpt-oss's",)

    @property
    def stop_ids(self) -> frozenset[int]:
        """<|return|>, <|call|> and, where there is one, <|endoftext|>."""
        return self._markup.stop_ids

    def render(self, messages: Sequence[Message], turn: Turn) -> list[int]:
        """Token ids of a conversation.

        Of `turn.variables`, those of gpt-oss's template are known (see `settings.VARIABLES`).
        Without thinking the answer begins on the final channel, so that this prompt begins the
        next one; with tools, which are called on another channel, after an empty reasoning.

        TextError, in one line, where a message, tool or variable is not as it must be.
        """
        given = harmony_messages(
            messages,
            Settings.of(turn),
            self._now or datetime.now(),
            preserve_reasoning=turn.preserve_reasoning,
        )
        return written(self._tokenizer, self._markup, given, _beginning(turn))

    def parser(self, messages: Sequence[Message] = (), turn: Turn | None = None) -> HarmonyParser:
        """A parser for the answer to a conversation rendered for this turn.

        TextError as `render`, where the turn's tools or variables are not as they must be.
        """
        turn = turn or Turn()
        settings = Settings.of(turn)
        opened = Header(channel="final") if _begins_final(turn) else None
        reader = MessageReader(
            self._tokenizer,
            self._markup,
            opened=opened,
            expects_start=not turn.add_generation_prompt,
        )
        closing = written(self._tokenizer, self._markup, (), (Mark.END, *_ANSWER, *_FINAL))
        return HarmonyParser(
            reader, names=settings.names, builtin=settings.builtin, closing_ids=closing
        )


def _begins_final(turn: Turn) -> bool:
    """Whether the prompt itself opens the final answer."""
    may_call = bool(turn.tools or turn.variables.get("builtin_tools"))
    return turn.add_generation_prompt and turn.enable_thinking is False and not may_call


def _beginning(turn: Turn) -> tuple[str | Mark, ...]:
    """What the prompt writes of the answer."""
    if not turn.add_generation_prompt:
        return ()
    if turn.enable_thinking is not False:
        return _ANSWER
    if _begins_final(turn):
        return (*_ANSWER, *_FINAL)
    return (*_ANSWER, *_NO_REASONING, *_ANSWER)
