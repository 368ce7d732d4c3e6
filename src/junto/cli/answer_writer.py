"""The answer of `junto run` on its way to the terminal, a pipe, or one JSON object.

Content goes to standard output as it comes. Reasoning goes there too, dimmed, where that is a
terminal, and nowhere else. Figures and remarks go to standard error.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from junto.cli.timing import Timing

if TYPE_CHECKING:
    from junto.chat.events import Event
    from junto.reply import Piece, Reply

DIM, PLAIN = "\x1b[2m", "\x1b[0m"


class AnswerWriter:
    """What has come of an answer.

    finish_reason   why it ended; "interrupted" after Ctrl-C
    """

    def __init__(self, model_name: str, load_s: float, *, as_json: bool) -> None:
        self._model_name = model_name
        self._as_json = as_json
        self._dims = not as_json and sys.stdout.isatty()
        self._is_dim = False
        self._timing = Timing(n_prompt=0, load_s=load_s)
        self._text = ""
        self._reasoning = ""
        self._calls: dict[int, str] = {}
        self._token_ids: list[int] = []
        self.finish_reason: str | None = None

    def take_pieces(
        self, prompt_ids: Sequence[int], pieces: "Iterator[Piece]", came: Callable[[], None]
    ) -> None:
        """Write pieces while they come, telling `came` of each before; Ctrl-C ends the answer."""
        self._timing.n_prompt = len(prompt_ids)
        try:
            for piece in pieces:
                came()
                self._token_ids.append(piece.token_id)
                self._timing.tokens(len(self._token_ids))
                self.finish_reason = piece.finish_reason
                self._content(piece)
        except KeyboardInterrupt:
            self.finish_reason = "interrupted"

    def take_reply(self, reply: "Reply", came: Callable[[], None]) -> None:
        """Write an answer while it comes, telling `came` of each event before; Ctrl-C ends it."""
        self._timing.n_prompt = len(reply.prompt_ids)
        self._token_ids = reply.token_ids
        try:
            with reply:
                for event in reply:
                    came()
                    self._timing.tokens(len(reply.token_ids))
                    self._event(event)
        except KeyboardInterrupt:
            self.finish_reason = "interrupted"

    def _event(self, event: "Event") -> None:
        match event.kind:
            case "content":
                self._content(event.text)
            case "reasoning":
                self._reasoning += event.text
                if self._dims:
                    self._write(event.text, dim=True)
            case "tool_call":
                self._calls[event.index] = self._calls.get(event.index, "") + event.name
            case "finish":
                self.finish_reason = event.reason

    def _content(self, text: str) -> None:
        self._text += text
        if text and not self._as_json:
            self._write(text, dim=False)

    def _write(self, text: str, *, dim: bool) -> None:
        if dim != self._is_dim:
            # An empty line between reasoning and answer, whichever comes first.
            started = self._reasoning.strip() if self._is_dim else self._text
            text = (DIM if dim else PLAIN) + ("\n\n" if started else "") + text
            self._is_dim = dim
        sys.stdout.write(text)
        sys.stdout.flush()

    def report(self) -> None:
        """End the text, and give figures and remarks."""
        if self._as_json:
            print(json.dumps(self.as_json(), ensure_ascii=False), flush=True)
            return
        if self._is_dim:
            sys.stdout.write(PLAIN)
        if self._is_dim or not self._text.endswith("\n"):
            print(flush=True)
        for remark in self._remarks():
            print(f"note: {remark}", file=sys.stderr)
        print(self._timing.line(), file=sys.stderr)

    def _remarks(self) -> Iterator[str]:
        if self._calls:
            names = ", ".join(self._calls.values())
            yield f"the model called functions that nobody offers: {names}"
        if self.finish_reason == "length" and self._reasoning and not self._text:
            yield (
                f"{len(self._token_ids)} tokens went into reasoning, and none were left for the"
                " answer; raise -n, or bound reasoning with --thinking-budget"
            )

    def as_json(self) -> dict[str, Any]:
        """The whole run as one object."""
        return {
            "model": self._model_name,
            "text": self._text,
            "reasoning": self._reasoning,
            "token_ids": self._token_ids,
            "n_prompt": self._timing.n_prompt,
            "n_generated": self._timing.n_generated,
            "finish_reason": self.finish_reason,
            "timings": self._timing.as_json(),
        }
