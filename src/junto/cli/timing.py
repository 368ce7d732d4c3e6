"""How long an answer took: the figures at the end of a run."""

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Timing:
    """Moments of one run, in seconds of a monotonic clock."""

    n_prompt: int
    load_s: float
    n_generated: int = 0
    _start: float = field(default_factory=time.perf_counter)
    _first: float | None = None
    _n_first: int = 0
    _last: float = 0.0

    def tokens(self, n_generated: int) -> None:
        """So many tokens have come; markup may let several pass before the first is told."""
        self._last = time.perf_counter()
        if self._first is None:
            self._first, self._n_first = self._last, n_generated
        self.n_generated = n_generated

    @property
    def first_token_s(self) -> float | None:
        """From the start of the prompt to the first token; None before it."""
        return None if self._first is None else self._first - self._start

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Prompt tokens per second up to the first token."""
        return _rate(self.n_prompt, self.first_token_s)

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Tokens per second after the first one told."""
        elapsed = None if self._first is None else self._last - self._first
        return _rate(self.n_generated - self._n_first, elapsed)

    def as_json(self) -> dict[str, float | None]:
        """All figures by name; null where there is nothing to measure."""
        figures = {
            "load_s": self.load_s,
            "first_token_s": self.first_token_s,
            "prefill_tokens_per_s": self.prefill_tokens_per_s,
            "decode_tokens_per_s": self.decode_tokens_per_s,
        }
        return {name: None if value is None else round(value, 4) for name, value in figures.items()}

    def line(self) -> str:
        """All figures in one line for people."""
        parts = [f"load {self.load_s:.2f} s"]
        if self.first_token_s is not None:
            rate = _shown(self.prefill_tokens_per_s)
            parts.append(f"prefill {self.n_prompt} tokens{rate}")
            parts.append(f"first token after {self.first_token_s:.2f} s")
        parts.append(f"decode {self.n_generated} tokens{_shown(self.decode_tokens_per_s)}")
        return " | ".join(parts)


def _rate(count: int, elapsed_s: float | None) -> float | None:
    return count / elapsed_s if count > 0 and elapsed_s else None


def _shown(rate: float | None) -> str:
    return "" if rate is None else f" at {rate:.1f} tokens/s"
