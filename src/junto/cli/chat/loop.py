"""The chat itself: reads a turn, runs a command or shows an answer, until nothing more comes.

No error of a turn ends the chat: it is one line, the messages are as before, and the question can
be changed and sent again.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from junto.cli.chat.commands import COMMANDS
from junto.cli.chat.figures import Figures
from junto.cli.chat.interrupts import Interrupt, interruptible
from junto.cli.chat.reading import Reader
from junto.cli.chat.screen import Screen
from junto.cli.chat.session import Session
from junto.cli.timing import Timing
from junto.cli.waiting_line import waiting_line
from junto.errors import JuntoError, RequestError

if TYPE_CHECKING:
    from junto.chat.events import Event
    from junto.reply import Reply


class Chat:
    """A session with a reader and a screen.

    draft      text that the next prompt starts with
    is_edit    the next turn replaces the last question
    is_over    someone asked to leave
    n_failed   turns that ended with an error
    """

    def __init__(self, session: Session, screen: Screen, reader: Reader) -> None:
        self.session = session
        self.screen = screen
        self.figures = Figures(session.model.n_ctx)
        self.draft = ""
        self.is_edit = False
        self.is_over = False
        self.n_failed = 0
        self._reader = reader

    def run(self) -> None:
        """Until Ctrl-D, the end of the pipe, or /exit."""
        while not self.is_over:
            draft, self.draft = self.draft, ""
            is_edit, self.is_edit = self.is_edit, False
            with self._errors_told():
                text = self._reader.read(draft)
                if text is None:
                    return
                if text.strip():
                    self._take(text, is_edit)

    @contextmanager
    def _errors_told(self) -> Iterator[None]:
        """Turn what a turn may raise into a line on the screen."""
        try:
            yield
            return
        except JuntoError as error:
            text = str(error)
        except MemoryError:
            text = "out of memory; /clear frees some, and a smaller --n-ctx needs less"
        except KeyboardInterrupt:
            # Pressed a moment too late for the answer it was meant for.
            if self._reader.stays:
                return
            raise
        self.n_failed += 1
        self.screen.error(" ".join(text.split()))

    def _take(self, text: str, is_edit: bool) -> None:
        if text.startswith("/") and not text.startswith("//"):
            name, _, rest = text.strip().partition(" ")
            if name not in COMMANDS:
                raise RequestError(
                    f"no command {name:.40}; /help lists them, and // begins a message with a slash"
                )
            COMMANDS[name].run(self, rest.strip())
            return
        text = text[1:] if text.startswith("//") else text
        ask = self.session.ask_again if is_edit else self.session.ask
        self.is_edit = is_edit
        self.answer(lambda: ask(text), draft=text)
        self.is_edit = self.is_edit and bool(self.draft)

    def answer(self, ask: "Callable[[], Reply]", draft: str = "") -> None:
        """Show the answer to a question and keep it; without any answer, nothing was asked.

        draft   what the next prompt starts with then

        KeyboardInterrupt after Ctrl-C, where that is to end the chat.
        """
        timing = Timing(n_prompt=0, load_s=0.0)
        before = self.session.messages
        kept = False
        try:
            reply = ask()
            with closing(reply):
                kept = self._show(reply, timing)
        finally:
            if not kept:
                self.draft = draft
                if self.session.messages is not before:
                    self.session.undo()

    def _show(self, reply: "Reply", timing: Timing) -> bool:
        """Show an answer; whether anything came that can be kept."""
        reason, calls = None, ""
        interrupt = Interrupt()
        self.screen.begin()
        try:
            with (
                waiting_line(self.session.model, len(reply.prompt_ids)) as came,
                interruptible(reply) as interrupt,
            ):
                for event in reply:
                    came()
                    timing.tokens(len(reply.token_ids))
                    self._tell(event)
                    reason, calls = event.reason, calls + event.name
                    if interrupt.wanted:
                        break
        except KeyboardInterrupt:
            interrupt.wanted = True
        finally:
            self.screen.end()
        if interrupt.wanted and not self._reader.stays:
            raise KeyboardInterrupt
        interrupted = interrupt.wanted and reason is None
        if not reply.token_ids:
            self.screen.remark("[stopped before the answer]")
            return False
        n_kept = self.session.seat.n_kept
        timing.n_prompt = len(reply.prompt_ids) - n_kept
        self.session.keep(reply, interrupted=interrupted)
        self.figures.add(timing, n_kept, len(reply.prompt_ids) + len(reply.token_ids))
        self._remark("interrupted" if interrupted else reason, calls)
        return True

    def _tell(self, event: "Event") -> None:
        match event.kind:
            case "content":
                self.screen.content(event.text)
            case "reasoning":
                self.screen.reasoning(event.text)

    def _remark(self, reason: str | None, calls: str) -> None:
        """What is to be said below an answer."""
        if reason == "interrupted":
            self.screen.remark("[stopped; what came stays in the conversation]")
        self.screen.remark(self.figures.status())
        if calls:
            self.screen.warn(f"the model called a function that nobody offers: {calls}")
        if reason == "length":
            self.screen.warn("the answer was cut: no tokens were left for it")
        if self.figures.is_nearly_full:
            context = self.figures.context(self.figures.n_context)
            self.screen.warn(f"{context}: nearly full; /clear begins anew, /save keeps this")
