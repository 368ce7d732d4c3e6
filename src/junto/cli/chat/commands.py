"""The commands of a chat: what begins with a slash.

Each is a row of `COMMANDS`: its argument and help, and a function of the chat and what stands after
the name. RequestError where that is not as it must be.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from junto.chat.dialogue import Effort
from junto.errors import RequestError

if TYPE_CHECKING:
    from junto.cli.chat.loop import Chat

KEYS = """Enter sends. Alt-Enter, or a backslash before Enter, begins a new line; pasted lines stay
together. Ctrl-C stops an answer, Ctrl-D leaves, arrow keys go through earlier prompts."""


@dataclass(frozen=True, slots=True)
class Command:
    """What a command takes, says of itself, and does."""

    argument: str
    help: str
    run: Callable[["Chat", str], None]


def _help(chat: "Chat", rest: str) -> None:
    """Every command, and the keys."""
    for name, command in COMMANDS.items():
        chat.screen.say(f"  {f'{name} {command.argument}':30s}{command.help}")
    chat.screen.say(KEYS)


def _system(chat: "Chat", rest: str) -> None:
    if rest:
        chat.session.system = None if rest == "-" else rest
    text = chat.session.system
    chat.screen.say("no system message" if text is None else f"system message: {text}")


def _regen(chat: "Chat", rest: str) -> None:
    chat.answer(chat.session.ask_again)


def _edit(chat: "Chat", rest: str) -> None:
    last = chat.session.last_question
    if rest:
        chat.answer(lambda: chat.session.ask_again(rest))
    else:
        chat.draft, chat.is_edit = last, True


def _save(chat: "Chat", rest: str) -> None:
    path = _path(rest, "/save")
    chat.session.save(path)
    chat.screen.remark(f"saved {len(chat.session.messages)} messages in {path}")


def _load(chat: "Chat", rest: str) -> None:
    saved = chat.session.load(_path(rest, "/load"))
    if saved.model != chat.session.model.name:
        chat.screen.warn(f"this chat was with {saved.model}")
    for message in saved.messages:
        chat.screen.say(f"[{message['role']}] {message['content']}")


def _path(text: str, command: str) -> Path:
    if not text:
        raise RequestError(f"{command} needs the name of a file")
    return Path(text).expanduser()


def _tokens(chat: "Chat", rest: str) -> None:
    n_tokens = chat.session.n_tokens
    left = max(0, chat.figures.n_ctx - n_tokens)
    n_messages = len(chat.session.messages)
    chat.screen.say(f"{chat.figures.context(n_tokens)}, {left:,} left; {n_messages} messages")


def _stats(chat: "Chat", rest: str) -> None:
    for line in chat.figures.lines():
        chat.screen.say(line)


def _reasoning(chat: "Chat", rest: str) -> None:
    if rest:
        chat.screen.hides_reasoning = _choice(rest, ("on", "off")) == "off"
    chat.screen.say(f"reasoning is {'hidden' if chat.screen.hides_reasoning else 'shown'}")


def _thinking(chat: "Chat", rest: str) -> None:
    settings = chat.session.settings
    if rest:
        settings.enable_thinking = {"on": True, "off": False, "auto": None}[
            _choice(rest, ("on", "off", "auto"))
        ]
    said = {True: "on", False: "off", None: "auto"}[settings.enable_thinking]
    chat.screen.say(f"thinking is {said}")


def _effort(chat: "Chat", rest: str) -> None:
    settings = chat.session.settings
    if rest:
        choice = _choice(rest, (*get_args(Effort), "auto"))
        settings.effort = None if choice == "auto" else cast(Effort, choice)
    chat.screen.say(f"effort is {settings.effort or 'auto'}")


def _choice(text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise RequestError(f"{text:.40} is none of: {', '.join(choices)}")
    return text


def _clear(chat: "Chat", rest: str) -> None:
    chat.session.clear()
    chat.screen.remark("the conversation is empty; system message and settings stay")


def _exit(chat: "Chat", rest: str) -> None:
    chat.is_over = True


COMMANDS = {
    "/help": Command("", "show this", _help),
    "/system": Command("[TEXT | -]", "show, set or remove the system message", _system),
    "/regen": Command("", "answer the last question anew", _regen),
    "/edit": Command("[TEXT]", "change the last question and ask it again", _edit),
    "/clear": Command("", "forget the conversation", _clear),
    "/save": Command("FILE", "write the conversation to a JSON file", _save),
    "/load": Command("FILE", "go on with a saved conversation", _load),
    "/tokens": Command("", "how much of the context is used", _tokens),
    "/stats": Command("", "speed and counts of the answers so far", _stats),
    "/reasoning": Command("[on | off]", "show reasoning, or hide it", _reasoning),
    "/thinking": Command("[on | off | auto]", "ask for reasoning, or for none", _thinking),
    "/effort": Command("[low | medium | high | auto]", "how long to reason", _effort),
    "/exit": Command("", "leave", _exit),
}
