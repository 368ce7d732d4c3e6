"""Answers on a terminal: Markdown rendered block by block, code coloured line by line.

What is final is printed once and never touched again, so the scrollback stays whole. What still
grows stands below it as plain text, in lines that are redrawn a few times a second and never more
than the window holds.
"""

import time

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.syntax import Syntax
from rich.text import Text

from junto.cli.chat.blocks import Block, Blocks
from junto.cli.chat.screen import shown

REDRAW_S = 0.08
"""Least time between two drawings of the growing lines."""

N_LINES_OF_CONTEXT = 300
"""Lines of code before a line that can decide its colours."""

CODE_THEME = "ansi_dark"
"""The terminal's own colours, which suit its background."""


class TerminalScreen:
    """A `Screen` with colours and a growing end."""

    def __init__(self, console: Console, *, hides_reasoning: bool = False) -> None:
        self.hides_reasoning = hides_reasoning
        self._console = console
        self._blocks = Blocks()
        self._code: list[str] = []
        self._language = ""
        self._live: Live | None = None
        self._drawn_at = 0.0
        self._reasoning = ""
        self._has_printed = False

    def begin(self) -> None:
        """Show that something is going on."""
        self._blocks, self._reasoning, self._has_printed = Blocks(), "", False
        self._live = Live(
            Text("reading…", style="dim"),
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)

    def reasoning(self, text: str) -> None:
        """Dimmed, line by line; a word in its place where it is hidden."""
        if self.hides_reasoning:
            self._grow(Text("thinking… (/reasoning on shows it)", style="dim"))
            return
        *lines, self._reasoning = (self._reasoning + shown(text)).split("\n")
        for line in lines:
            self._print(Text(line, style="dim"))
        self._grow(self._tail(self._reasoning, "dim"))

    def content(self, text: str) -> None:
        """Rendered as far as it is final."""
        self._end_reasoning()
        for block in self._blocks.feed(shown(text)):
            self._show(block)
        self._grow(self._tail(self._blocks.growing))

    def _end_reasoning(self) -> None:
        if self._reasoning:
            self._print(Text(self._reasoning, style="dim"))
            self._reasoning = ""

    def end(self) -> None:
        """Print what was growing, and leave an empty line."""
        self._end_reasoning()
        for block in self._blocks.finish():
            self._show(block)
        if self._live:
            self._live.update(Text(""), refresh=True)
            self._live.stop()
            self._live = None
        self._code = []
        if self._has_printed:
            self._console.print()

    def _show(self, block: Block) -> None:
        match block.kind:
            case "prose":
                if block.text.strip():
                    self._space()
                    self._print(Markdown(block.text, code_theme=CODE_THEME, hyperlinks=False))
            case "open":
                self._space()
                self._code, self._language = [], block.language
                self._print(Text(block.text.rstrip("\n"), style="dim"))
            case "code":
                self._print_code(block.text)
            case "close":
                self._print(Text(block.text.rstrip("\n"), style="dim"))

    def _space(self) -> None:
        """An empty line between blocks."""
        if self._has_printed:
            self._print(Text(""))

    def _print_code(self, line: str) -> None:
        """Colours depend on the lines before; the line itself is never broken, for copying."""
        self._code = [*self._code[-N_LINES_OF_CONTEXT:], line.rstrip("\n")]
        whole = Syntax("", self._language or "text", theme=CODE_THEME).highlight(
            "\n".join(self._code)
        )
        last = whole.split("\n", allow_blank=True)[len(self._code) - 1]
        self._print(last, soft_wrap=True)

    def _print(self, what: RenderableType, *, soft_wrap: bool = False) -> None:
        if self._live:
            # Else what grew would stand below for a moment more, beside what it became.
            self._live.update(Text(""), refresh=True)
        self._console.print(what, soft_wrap=soft_wrap)
        self._has_printed = True
        self._drawn_at = 0.0

    def _grow(self, what: Text) -> None:
        now = time.perf_counter()
        if self._live and now - self._drawn_at >= REDRAW_S:
            self._live.update(what, refresh=True)
            self._drawn_at = now

    def _tail(self, text: str, style: str = "") -> Text:
        """The last lines of a text, as many as the window holds beside the cursor's."""
        n_most = max(1, self._console.height - 2)
        # Longer texts cannot be seen whole anyway, and wrapping costs time.
        seen = Text(text[-n_most * self._console.width :].rstrip("\n"), style=style)
        return Text("\n").join(seen.wrap(self._console, self._console.width)[-n_most:])

    def say(self, text: str) -> None:
        """Plainly."""
        self._console.print(Text(shown(text)))

    def remark(self, text: str) -> None:
        """Dimmed."""
        self._console.print(Text(shown(text), style="dim"))

    def warn(self, text: str) -> None:
        """In yellow."""
        self._console.print(Text(shown(f"note: {text}"), style="yellow"))

    def error(self, text: str) -> None:
        """In red."""
        self._console.print(Text(shown(f"error: {text}"), style="red"))
