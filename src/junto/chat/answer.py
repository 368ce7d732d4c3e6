"""One answer while it comes: a family's parser, with stop strings and a thinking budget.

Stop strings end content and nothing else: reasoning and arguments of tools may hold them. A stop
string lies within one stretch of content; where reasoning or a tool call follows, what was held
back comes out first. A spent budget closes reasoning in the family's way. Knows no model: tokens
are given here, and those to force are taken from here.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Literal

from junto.chat.dialogue import Parser
from junto.chat.events import Event
from junto.chat.stop_strings import StopStrings
from junto.errors import RequestError


class Answer:
    """The events of one answer.

    forced    ids that the model must take next, oldest first; whoever generates takes them from
              the left, and feeds them here like any other token
    stopped   a stop string was complete: `finish` comes next
    """

    def __init__(
        self, parser: Parser, stop: str | Sequence[str] = (), thinking_budget: int | None = None
    ) -> None:
        """Read with `parser`; `thinking_budget` is the most tokens of reasoning, None for any.

        RequestError where a stop string is empty or the budget below 0.
        """
        if thinking_budget is not None and thinking_budget < 0:
            raise RequestError(f"thinking_budget is {thinking_budget}, expected at least 0")
        self._parser = parser
        self._stops = StopStrings(stop)
        self._budget = thinking_budget
        self._n_reasoning = 0
        self._calls = False
        self.forced: deque[int] = deque()
        self._close_if_spent()

    @property
    def stopped(self) -> bool:
        """Whether a stop string was complete."""
        return self._stops.stopped

    @property
    def n_repair(self) -> int:
        """What the parser had to mend so far."""
        return self._parser.n_repair

    def feed(self, token_id: int) -> list[Event]:
        """What this token makes certain."""
        was_open = self._is_open()
        events = self._before_stop(self._parser.feed(token_id))
        self._n_reasoning += was_open and self._is_open()
        self._close_if_spent()
        return events

    def finish(self, reason: Literal["stop", "length"]) -> list[Event]:
        """What was held back, and the `finish` event; `reason` is why no token follows."""
        events = [] if self.stopped else self._before_stop(self._parser.finish(reason))
        if self.stopped:
            events.append(Event("finish", reason="tool_calls" if self._calls else "stop"))
        return events

    def _is_open(self) -> bool:
        """Whether reasoning that has a budget is open."""
        return self._budget is not None and bool(self._parser.close_reasoning())

    def _close_if_spent(self) -> None:
        if self._budget is not None and self._n_reasoning >= self._budget and not self.forced:
            self.forced.extend(self._parser.close_reasoning())

    def _before_stop(self, events: Iterable[Event]) -> list[Event]:
        passed: list[Event] = []
        for event in events:
            is_content = event.kind == "content"
            text = self._stops.feed(event.text) if is_content else self._stops.flush()
            if text:
                passed.append(Event("content", text))
            if self.stopped:
                break
            if not is_content:
                self._calls |= event.kind == "tool_call"
                passed.append(event)
        return passed
