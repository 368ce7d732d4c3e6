"""An answer's token ids as events: reasoning, content, calls of tools.

`analysis` is reasoning, and so is what the model says to itself; a message to a tool is a call;
everything else is content, so that no text is lost to a strange channel. Arguments are mended into
JSON while they come. Never raises.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from junto.chat.events import Event
from junto.chat.harmony.builtin_tools import PYTHON, is_builtin
from junto.chat.harmony.header import ASSISTANT, ROLES, Header
from junto.chat.harmony.json_object import JsonObject
from junto.chat.harmony.markup import Mark
from junto.chat.harmony.python_code import CodeArguments
from junto.chat.harmony.reader import Closed, MessageReader, Opened, Step, Text
from junto.chat.harmony.system import FUNCTIONS

_NO_TOOLS = frozenset({"", "all", FUNCTIONS, *ROLES})


class HarmonyParser:
    """A `Parser` of harmony.

    n_repair   what had to be mended so far
    """

    def __init__(
        self,
        reader: MessageReader,
        *,
        names: Collection[str] = (),
        builtin: Collection[str] = (),
        closing_ids: Sequence[int] = (),
    ) -> None:
        """Parse what `reader` reads.

        names         functions that are offered
        builtin       builtin tools that are offered
        closing_ids   what ends reasoning and begins the final answer
        """
        self.n_repair = 0
        self._reader = reader
        self._names = names
        self._builtin = builtin
        self._closing_ids = list(closing_ids)
        self._n_mended = 0
        self._n_calls = 0
        self._spoken: Literal["reasoning", "content"] | None = None
        self._arguments: JsonObject | CodeArguments | None = None
        self._is_finished = False

    def feed(self, token_id: int) -> list[Event]:
        """What this token makes certain; nothing after the end of the answer."""
        return self._events(self._reader.feed(token_id))

    def finish(self, reason: Literal["stop", "length"] = "stop") -> list[Event]:
        """What was held back, and the `finish` event; nothing when called again.

        The reason is "tool_calls" where the answer calls any, but "length" where that cut it.
        """
        if self._is_finished:
            return []
        self._is_finished = True
        was_cut = reason == "length" and not self._reader.is_done
        events = self._events(self._reader.finish())
        ended: Literal["stop", "tool_calls"] = "tool_calls" if self._n_calls else "stop"
        return [*events, Event("finish", reason="length" if was_cut else ended)]

    def close_reasoning(self) -> list[int]:
        """<|end|> and the beginning of a final answer, while reasoning is open; else nothing."""
        return list(self._closing_ids) if self._spoken == "reasoning" else []

    def _events(self, steps: Iterable[Step]) -> list[Event]:
        events: list[Event] = []
        for step in steps:
            match step:
                case Opened(header):
                    events += self._open(header)
                case Text(text):
                    events += self._tell(text)
                case Closed(by):
                    events += self._close(by)
        self.n_repair = self._reader.n_repair + self._n_mended
        return events

    def _open(self, header: Header) -> list[Event]:
        name = self._called(header)
        if not name:
            to_itself = header.recipient == ASSISTANT
            is_reasoning = header.channel == "analysis" or to_itself
            self._spoken = "reasoning" if is_reasoning else "content"
            self._n_mended += to_itself
            return []
        is_code = name == PYTHON and name not in self._names and header.content_type != "json"
        self._arguments = CodeArguments() if is_code else JsonObject()
        self._n_calls += 1
        return [Event("tool_call", index=self._n_calls - 1, name=name)]

    def _called(self, header: Header) -> str:
        """The tool that a message calls; empty where it calls none.

        Functions may lack their namespace, or have a strange one before a name that is offered.
        """
        recipient = header.recipient
        if recipient in _NO_TOOLS or header.role != ASSISTANT:
            self._n_mended += recipient not in ("", ASSISTANT)
            return ""
        name = recipient.removeprefix(FUNCTIONS + ".")
        if name in self._names or is_builtin(recipient, self._builtin):
            self._n_mended += name == recipient and name in self._names
            return name
        last = name.rsplit(".", 1)[-1]
        self._n_mended += name == recipient or last in self._names
        return last if last in self._names else name

    def _tell(self, text: str) -> list[Event]:
        if self._arguments is None:
            return [Event(self._spoken or "content", text)]
        return self._argued(self._arguments.feed(text))

    def _argued(self, characters: str) -> list[Event]:
        if not characters:
            return []
        return [Event("tool_call", index=self._n_calls - 1, arguments=characters)]

    def _close(self, by: Mark | None) -> list[Event]:
        self._spoken = None
        arguments, self._arguments = self._arguments, None
        self._n_mended += by is not None and (by is Mark.CALL) != (arguments is not None)
        if arguments is None:
            return []
        events = self._argued(arguments.finish())
        self._n_mended += arguments.n_repair
        return events
