"""A chat without its terminal: the messages, how answers are asked for, and the seat in the cache.

Invariant: a question stays in the messages only with an answer, whole or not. Knows neither
commands nor screens.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from junto.cli.chat.saved import Saved, read_chat, write_chat
from junto.cli.chat.settings import Settings
from junto.errors import RequestError, TextError

if TYPE_CHECKING:
    from junto.model import Model
    from junto.reply import Reply


class Session:
    """One conversation with a model.

    messages   user and assistant in turn; an answer that was stopped has `interrupted`
    system     the system message before them, or None
    settings   how the next answer is asked for
    seat       the conversation's place in the cache
    """

    def __init__(self, model: "Model", settings: Settings, system: str | None = None) -> None:
        self.model = model
        self.settings = settings
        self.system = system
        self.messages: list[dict[str, Any]] = []
        self._before_asking = self.messages
        self.seat = model.conversation()
        self._n_try = 0

    def ask(self, text: str) -> "Reply":
        """Put a question and begin its answer.

        JuntoError where the model refuses, which may be at the reply's first event. The question
        stands until `keep` takes its answer or `undo` takes the question back.
        """
        self._n_try = 0
        return self._ask(text, self.messages)

    def ask_again(self, text: str | None = None) -> "Reply":
        """Ask the last question anew, or another in its place; its answer goes.

        RequestError where nothing was asked.
        """
        index = self._last_question()
        self._n_try = self._n_try + 1 if text is None else 0
        if text is None:
            text = str(self.messages[index]["content"])
        return self._ask(text, self.messages[:index])

    def _ask(self, text: str, before: list[dict[str, Any]]) -> "Reply":
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise TextError("the message holds bytes that are not UTF-8; it was not sent")
        self._before_asking = self.messages
        self.messages = [*before, {"role": "user", "content": text}]
        options = self.settings.as_json()
        if self.settings.seed is not None:
            # The same seed would give the same answer when it is asked for another.
            options["seed"] = (self.settings.seed + self._n_try) % 2**64
        return self.model.chat(self._sent(), conversation=self.seat, **options)

    def keep(self, reply: "Reply", *, interrupted: bool) -> None:
        """Take an answer, or what has come of it, into the conversation."""
        # Nobody offers functions, so nobody answers calls: a call left open would confuse.
        answer = {key: value for key, value in reply.message.items() if key != "tool_calls"}
        mark = {"interrupted": True} if interrupted else {}
        self._before_asking = self.messages = [*self.messages, answer | mark]

    def undo(self) -> None:
        """Put the messages back as they were before the question that has no answer."""
        self.messages = self._before_asking

    @property
    def last_question(self) -> str:
        """The text of the last question; RequestError where nothing was asked."""
        return str(self.messages[self._last_question()]["content"])

    def _last_question(self) -> int:
        for index in reversed(range(len(self.messages))):
            if self.messages[index]["role"] == "user":
                return index
        raise RequestError("nothing was asked yet")

    def clear(self) -> None:
        """Forget the messages; system message and settings stay."""
        self.messages = []
        self.seat.close()

    def save(self, path: Path) -> None:
        """Write the chat to a file; DiskError where that fails."""
        write_chat(path, Saved(self.model.name, self._with_system(self.messages), self.settings))

    def load(self, path: Path) -> Saved:
        """Go on with the chat of a file; FormatError, and nothing changed, where it holds none."""
        saved = read_chat(path)
        has_system = bool(saved.messages) and saved.messages[0]["role"] == "system"
        self.system = saved.messages[0]["content"] if has_system else None
        self.messages = saved.messages[1:] if has_system else list(saved.messages)
        self.settings = saved.settings
        return saved

    @property
    def n_tokens(self) -> int:
        """Tokens of the conversation as the model would read it now; 0 where there is none."""
        messages = self._sent()
        if not messages:
            return 0
        return len(
            self.model.text.render(
                messages,
                add_generation_prompt=False,
                enable_thinking=self.settings.enable_thinking,
                effort=self.settings.effort,
                preserve_reasoning=self.settings.preserve_reasoning,
            )
        )

    def _sent(self) -> list[dict[str, Any]]:
        """The messages without the marks that are ours."""
        kept = [{k: v for k, v in m.items() if k != "interrupted"} for m in self.messages]
        return self._with_system(kept)

    def _with_system(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        first = [] if self.system is None else [{"role": "system", "content": self.system}]
        return [*first, *messages]
