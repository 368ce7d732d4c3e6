"""Figures of a chat: of the last answer, and of all."""

from dataclasses import dataclass

from junto.cli.timing import Timing

NEARLY_FULL = 0.85
"""Share of the context from which on a chat warns."""


@dataclass(slots=True)
class Figures:
    """What the answers so far took.

    n_context      tokens of the conversation after the last answer
    n_read         prompt tokens that were read, and n_kept those that the cache still held
    """

    n_ctx: int
    n_answer: int = 0
    n_context: int = 0
    n_read: int = 0
    n_kept: int = 0
    n_generated: int = 0
    last: Timing | None = None
    last_kept: int = 0

    def add(self, timing: Timing, n_kept: int, n_context: int) -> None:
        """Count an answer; `timing.n_prompt` is what was read for it."""
        self.n_answer += 1
        self.n_read += timing.n_prompt
        self.n_kept += n_kept
        self.n_generated += timing.n_generated
        self.n_context = n_context
        self.last, self.last_kept = timing, n_kept

    @property
    def is_nearly_full(self) -> bool:
        """Whether little of the context is left."""
        return self.n_context >= NEARLY_FULL * self.n_ctx

    def context(self, n_tokens: int) -> str:
        """How much of the context so many tokens take."""
        percent = -(-100 * n_tokens // self.n_ctx)
        return f"context {n_tokens:,} of {self.n_ctx:,} ({percent} %)"

    def status(self) -> str:
        """The line below the last answer."""
        return " · ".join([*_speed(self.last), self.context(self.n_context)])

    def lines(self) -> list[str]:
        """All figures, for /stats."""
        if self.last is None:
            return ["no answer yet"]
        return [
            f"last answer: {' · '.join(_speed(self.last))}",
            f"its prompt: {self.last.n_prompt:,} tokens read, {self.last_kept:,} kept from before",
            f"all {self.n_answer} answers: {self.n_generated:,} tokens generated,"
            f" {self.n_read:,} read, {self.n_kept:,} kept",
            self.context(self.n_context),
        ]


def _speed(timing: Timing | None) -> list[str]:
    if timing is None or timing.first_token_s is None:
        return []
    rate = timing.decode_tokens_per_s
    return [
        f"{timing.n_generated:,} tokens" + (f" at {rate:.1f} tokens/s" if rate else ""),
        f"first token after {timing.first_token_s:.2f} s",
    ]
