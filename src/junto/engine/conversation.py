"""A sequence that stays in its slot from one answer to the next.

A new prompt is compared with the tokens that the slot holds. What both begin with stays; the rest
is dropped and the prompt's rest is read. How far a slot can go back is the cache's to say: any
position of full attention, the last 64 tokens or more of a sliding window, the last aligned
position of DeltaNet layers. Where it cannot, the slot begins anew and the prompt is read whole.

Invariant: the tokens are those that a fresh slot gives. Knows neither text nor messages.
"""

from collections import deque
from collections.abc import Generator, Sequence

from junto.engine.generation import Generated, Request, answer, check
from junto.engine.runner import Runner
from junto.errors import RequestError


class Conversation:
    """One slot, held from the first answer to `close`.

    n_kept   tokens of the last prompt that did not have to be read again
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._slot: int | None = None
        self._held: list[int] = []
        self._is_busy = False
        self.n_kept = 0

    def generate(
        self, request: Request, forced: deque[int] | None = None
    ) -> Generator[Generated, None, None]:
        """Yield what `junto.engine.generation.generate` yields, and keep the slot.

        RequestError as there, and while the last answer is still open.
        """
        check(request, self._runner.cache.n_ctx)
        if self._is_busy:
            raise RequestError("the conversation's last answer is still open; close it first")
        self._is_busy = True
        try:
            yield from self._answer(request, deque[int]() if forced is None else forced)
        finally:
            self._is_busy = False

    def _answer(self, request: Request, forced: deque[int]) -> Generator[Generated, None, None]:
        slot, told = self._seat(request.prompt), list(request.prompt)
        try:
            for token in answer(self._runner, slot, self.n_kept, request, forced):
                told.append(token.token_id)
                yield token
        except GeneratorExit:
            raise
        except BaseException:
            # A step that raised leaves its slot undefined.
            self.close()
            raise
        finally:
            # The last tokens may have been told and not fed.
            self._held = told[: self._length()]

    def _seat(self, prompt: Sequence[int]) -> int:
        """The slot, which holds as much of the prompt as can be kept, and not all of it."""
        self.n_kept = _n_common(self._held, prompt[:-1])
        if self._slot is not None and self.n_kept < self._length():
            try:
                self._runner.cache.truncate(self._slot, self.n_kept)
            except RequestError:
                self.close()
        if self._slot is None:
            self._slot, self.n_kept = self._runner.cache.open(), 0
        return self._slot

    def _length(self) -> int:
        return 0 if self._slot is None else self._runner.cache.length(self._slot)

    def close(self) -> None:
        """Free the slot; a later answer takes one again and reads its prompt whole."""
        if self._slot is not None:
            self._runner.cache.close(self._slot)
        self._slot, self._held = None, []


def _n_common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens both begin with."""
    for n, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return n
    return min(len(a), len(b))
