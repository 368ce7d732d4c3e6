"""A conversation in the form of OpenAI's chat API as a list of harmony messages.

A leading system or developer message becomes the developer's instructions; later ones are written
where they stand. Reasoning is kept from the last finished answer on, so that of an open tool turn
stays and that of finished turns goes. Each message's rendering depends on those before it alone,
but for that: so a prompt begins the next one wherever the family's rule allows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from junto.chat.harmony.builtin_tools import PYTHON, is_builtin
from junto.chat.harmony.fields import (
    as_list,
    as_mapping,
    as_text,
    plain_name,
    text_of_arguments,
    text_of_content,
    text_of_reasoning,
)
from junto.chat.harmony.message import HarmonyMessage
from junto.chat.harmony.python_code import code_of_arguments
from junto.chat.harmony.settings import Settings
from junto.chat.harmony.system import FUNCTIONS, developer_text, system_text
from junto.chat.template import Message
from junto.errors import TextError

_INSTRUCTING = ("system", "developer")


def harmony_messages(
    messages: Sequence[Message], settings: Settings, now: datetime, *, preserve_reasoning: bool
) -> list[HarmonyMessage]:
    """The messages as harmony has them, system message first.

    TextError, in one line, where a message is not as it must be.
    """
    given = [as_mapping(message, f"messages[{i}]") for i, message in enumerate(messages)]
    first_open = 0 if preserve_reasoning else _first_open(given)
    conversation = _Conversation(settings)
    leads = bool(given) and given[0].get("role") in _INSTRUCTING
    instructions = text_of_content(given[0], "messages[0]") if leads else ""
    conversation.open(instructions, now)
    for i, message in enumerate(given[leads:], int(leads)):
        conversation.add(message, f"messages[{i}]", keeps_reasoning=i >= first_open)
    return conversation.messages


def _first_open(messages: Sequence[Message]) -> int:
    """Index after the last finished answer: an assistant's message without calls."""
    finished = (
        i + 1
        for i, message in enumerate(messages)
        if message.get("role") == "assistant" and not message.get("tool_calls")
    )
    return max(finished, default=0)


@dataclass(slots=True)
class _Conversation:
    """What has been written so far, and which calls await results.

    names   id of a call -> the function's name in the header
    """

    settings: Settings
    messages: list[HarmonyMessage] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    last_name: str = ""

    def open(self, instructions: str, now: datetime) -> None:
        self.messages.append(HarmonyMessage("system", system_text(self.settings, now)))
        self._develop(developer_text(instructions, self.settings.functions))

    def add(self, message: Message, where: str, *, keeps_reasoning: bool) -> None:
        match message.get("role"):
            case "user":
                text = text_of_content(message, where)
                self.messages.append(HarmonyMessage("user", text))
            case "assistant":
                self._add_answer(message, where, keeps_reasoning)
            case "tool":
                self._add_result(message, where)
            case "system" | "developer":
                self._develop(developer_text(text_of_content(message, where)))
            case role:
                raise TextError(
                    f"{where}: role is {role!r:.40}, expected system, developer, user,"
                    " assistant or tool"
                )

    def _develop(self, text: str) -> None:
        if text:
            self.messages.append(HarmonyMessage("developer", text))

    def _add_answer(self, message: Message, where: str, keeps_reasoning: bool) -> None:
        reasoning = text_of_reasoning(message, where)
        content = text_of_content(message, where, may_lack=True)
        calls = as_list(message.get("tool_calls"), f"{where}.tool_calls")
        if reasoning and keeps_reasoning:
            self._say("analysis", reasoning)
        if not calls:
            self._say("final", content)
        elif content:
            self._say("commentary", content)
        for i, call in enumerate(calls):
            place = f"{where}.tool_calls[{i}]"
            self._add_call(as_mapping(call, place), place)

    def _say(self, channel: str, text: str) -> None:
        self.messages.append(HarmonyMessage("assistant", text, channel=channel))

    def _add_call(self, call: Mapping[str, Any], where: str) -> None:
        fields = as_mapping(call.get("function", call), f"{where}.function")
        name = self._recipient(as_text(fields.get("name"), f"{where}.name"), where)
        arguments = text_of_arguments(fields.get("arguments"), f"{where}.arguments")
        self.last_name = name
        if isinstance(call.get("id"), str):
            self.names[call["id"]] = name
        self.messages.append(self._call(name, arguments))

    def _call(self, recipient: str, arguments: str) -> HarmonyMessage:
        if recipient.startswith(FUNCTIONS + "."):
            kind = ("commentary", "json", True)
        else:
            kind = ("analysis", "code", False)
        text = code_of_arguments(arguments) if recipient == PYTHON else arguments
        return HarmonyMessage("assistant", text, recipient, *kind, is_call=True)

    def _recipient(self, name: str, where: str) -> str:
        """Whom a call addresses: a function, or a builtin tool where that is offered."""
        plain = plain_name(name)
        if not plain:
            raise TextError(f"{where}: name is {name!r:.40}, expected that of a function")
        builtin = is_builtin(plain, self.settings.builtin)
        return plain if builtin and plain not in self.settings.names else f"{FUNCTIONS}.{plain}"

    def _add_result(self, message: Message, where: str) -> None:
        author = self._author(message, where)
        channel = "commentary" if author.startswith(FUNCTIONS + ".") else "analysis"
        text = text_of_content(message, where, may_lack=True)
        self.messages.append(HarmonyMessage(author, text, "assistant", channel))

    def _author(self, message: Message, where: str) -> str:
        """Who answers: the function of the call with that id, or that name, or the last called."""
        call_id, name = message.get("tool_call_id"), message.get("name")
        if isinstance(call_id, str) and call_id in self.names:
            return self.names[call_id]
        if name is not None:
            return self._recipient(as_text(name, f"{where}.name"), where)
        if self.last_name:
            return self.last_name
        raise TextError(
            f"{where}: role 'tool' answers no call; give the 'name' of the function, or an earlier"
            f" call with the id {call_id!r:.40}"
        )
