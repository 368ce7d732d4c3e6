"""How much one rendering of a template may do: steps, time, characters, size of a value.

Each function measures what an operation is about to make and raises `Exceeded` before it is made,
since nothing can interrupt Python inside one. Knows neither Jinja2's syntax nor chat.
"""

import re
import time
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import TypeVar

from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

from junto.chat.provenance import Traced, concatenated

MAX_STEPS = 5_000_000
MAX_CHARS = 8_000_000
MAX_COPIED = 512_000_000
MAX_NODES = 1_000_000
MAX_BITS = 4096

T = TypeVar("T")


class Exceeded(SecurityError):
    """The template asks for more than a rendering may take."""


class Budget:
    """What one rendering has used so far, and its deadline in seconds of wall time."""

    def __init__(self, timeout_s: float) -> None:
        self._n_steps = 0
        self._n_copied = 0
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def step(self) -> None:
        """Count one pass of a loop, macro or block."""
        self._n_steps += 1
        if self._n_steps > MAX_STEPS:
            raise Exceeded(f"it loops more than {MAX_STEPS} times")
        if time.monotonic() > self._deadline:
            raise Exceeded(f"it runs longer than {self._timeout_s:g} s")

    def copy(self, n_chars: int) -> None:
        """Count characters that an operation is about to make; `copy_list` counts entries."""
        self._n_copied += n_chars
        if n_chars > MAX_CHARS or self._n_copied > MAX_COPIED:
            raise Exceeded("it makes too much text")

    def copy_list(self, n_entries: int) -> None:
        """Count entries of a list that an operation is about to make, eight bytes each."""
        if n_entries > MAX_NODES:
            raise Exceeded("a value grows too large")
        self.copy(8 * n_entries)


# The rendering that runs in this thread or task; filters have no other way to reach it.
BUDGET: ContextVar[Budget] = ContextVar("BUDGET")


def n_chars(value: object) -> int:
    """Characters in a value and all it holds; Exceeded where it unfolds too far.

    A list that holds another twice, many times over, is small in memory and endless to print.
    """
    if isinstance(value, str):
        return len(value)
    n_nodes = n_found = 0
    waiting: list[object] = [value]
    while waiting:
        item = waiting.pop()
        n_nodes += 1
        if isinstance(item, str):
            n_found += len(item)
        else:
            waiting.extend(_parts(item))
        if n_nodes + len(waiting) > MAX_NODES or n_found > MAX_CHARS:
            raise Exceeded("a value grows too large")
    return n_found


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Namespace):
        value = object.__getattribute__(value, "_Namespace__attrs")
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list | tuple | set | frozenset) else ()


def weighed(value: T) -> T:
    """The value itself; Exceeded where it unfolds too far."""
    if n_chars(value) > MAX_CHARS:
        raise Exceeded("a value grows too large")
    return value


def check_product(left: object, right: object) -> None:
    """Measure left * right."""
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > MAX_BITS:
            raise Exceeded("a number grows too large")
        return
    for many, times in ((left, right), (right, left)):
        if isinstance(many, str) and isinstance(times, int):
            BUDGET.get().copy(len(many) * max(times, 0))
        elif isinstance(many, list | tuple) and isinstance(times, int):
            BUDGET.get().copy_list(len(many) * max(times, 0))


def check_power(base: object, exponent: object) -> None:
    """Measure base ** exponent."""
    if not isinstance(base, int) or not isinstance(exponent, int):
        return
    if base.bit_length() * abs(exponent) > MAX_BITS:
        raise Exceeded("a number grows too large")


def check_sum(left: object, right: object) -> None:
    """Measure left + right."""
    if isinstance(left, str) and isinstance(right, str):
        BUDGET.get().copy(len(left) + len(right))
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        BUDGET.get().copy_list(len(left) + len(right))


_WIDE_PERCENT = re.compile(r"%[^a-zA-Z%]*(\d{5}|\*)")
_WIDTH = re.compile(r"\d{1,4}")
_WIDE_BRACES = re.compile(r"\{[^{}]*(:[^{}]*\d{5}|\{)")


def check_percent(pattern: object, values: object) -> None:
    """Measure pattern % values where the pattern is text."""
    if isinstance(pattern, str):
        if _WIDE_PERCENT.search(pattern):
            raise Exceeded("a format asks for a very wide field")
        BUDGET.get().copy(_widest(pattern) + pattern.count("%") * n_chars(values))


def _widest(pattern: str) -> int:
    """Characters that a format can fill by itself: its own and the widths it asks for."""
    return len(pattern) + sum(map(int, _WIDTH.findall(pattern)))


def check_braces(pattern: str, values: object) -> None:
    """Measure pattern.format(values)."""
    if _WIDE_BRACES.search(pattern.replace("{{", "")):
        raise Exceeded("a format asks for a very wide field")
    BUDGET.get().copy(_widest(pattern) + pattern.count("{") * n_chars(values))


def replaced(text: str, old: object, new: object, count: int = -1) -> str:
    """text.replace(old, new, count), measured."""
    old, new = str(old), str(new)
    n_found = text.count(old) if count < 0 else min(count, text.count(old))
    BUDGET.get().copy(len(text) + n_found * max(len(new) - len(old), 0))
    return text.replace(old, new, count)


def joined(separator: str, parts: Iterable[object]) -> Traced:
    """separator.join(parts), measured; each part is made text first."""
    texts = [str(weighed(part)) for part in parts]
    BUDGET.get().copy(sum(map(len, texts)) + len(separator) * len(texts))
    if separator:
        texts = [text for part in texts for text in (separator, part)][1:]
    return concatenated(texts)


def trimmed(text: str, chars: str | None = None) -> str:
    """text.strip(chars), with few characters to strip."""
    if chars is not None and len(chars) > 100:
        raise Exceeded("it strips more than 100 different characters")
    return text.strip(chars)
