"""The prompt of a chat on a terminal: history, several lines, completion of commands."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


class Editor:
    """A `Reader` for people."""

    stays = True

    def __init__(self, commands: Iterable[str]) -> None:
        self._session: PromptSession[str] = PromptSession(
            history=open_history(),
            multiline=True,
            prompt_continuation="  ",
            key_bindings=_keys(),
            completer=WordCompleter(list(commands), sentence=True),
            complete_while_typing=False,
        )

    def read(self, draft: str = "") -> str | None:
        """The next turn; None after Ctrl-D, nothing after Ctrl-C, which drops what was typed."""
        try:
            return self._session.prompt("> ", default=draft)
        except KeyboardInterrupt:
            print("(Ctrl-D or /exit leaves)")
            return ""
        except EOFError:
            return None


def _keys() -> KeyBindings:
    """Enter sends, unless a backslash stands before it; Alt-Enter begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class PromptHistory(FileHistory):
    """Earlier prompts in a file; what cannot be written there is remembered until the end."""

    def store_string(self, string: str) -> None:
        """Append a prompt; bytes that were not UTF-8 become U+FFFD."""
        try:
            super().store_string(string.encode("utf-8", "replace").decode())
        except OSError as error:
            print(f"note: {os.fsdecode(self.filename)}: {error.strerror}", file=sys.stderr)


def open_history() -> History:
    """The history of this user, whose eyes alone may see it.

    It lies in $XDG_STATE_HOME/junto/chat_history, or the same below ~/.local/state; where that
    cannot be written it ends with the chat.
    """
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(base) / "junto" / "chat_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        print(f"note: {path}: {error.strerror}; no history is kept", file=sys.stderr)
        return InMemoryHistory()
    return PromptHistory(str(path))
