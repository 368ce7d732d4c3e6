"""One request from prompt to last token.

The random number that chooses a token depends on the request's seed and the token's position
alone, so a request gives the same tokens whatever else runs. A caller may force tokens between the
chosen ones; they take positions and draw no number.
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from junto.engine.runner import Runner
from junto.errors import RequestError
from junto.ops.contract import Sampling
from junto.ops.views import F32

PREFILL_STEP = 512
"""Prompt tokens in one step."""

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Request:
    """What to generate.

    prompt      token ids, at least one
    n_predict   most tokens to generate
    sampling    how a token is chosen
    seed        decides every choice, with the position
    stop_ids    tokens that end the answer
    """

    prompt: Sequence[int]
    n_predict: int
    sampling: Sampling
    seed: int
    stop_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Generated:
    """One token, and on the last one why it is the last."""

    token_id: int
    finish_reason: FinishReason | None


def check(request: Request, n_ctx: int) -> None:
    """RequestError if an argument is out of range or the prompt does not fit."""
    s = request.sampling
    bounds = (
        ("n_predict", request.n_predict, request.n_predict >= 1, "at least 1"),
        ("temperature", s.temperature, 0 <= s.temperature <= 100, "0 to 100"),
        ("top_k", s.top_k, s.top_k >= 0, "at least 0 (0: all)"),
        ("top_p", s.top_p, 0 < s.top_p <= 1, "above 0, at most 1"),
        ("min_p", s.min_p, 0 <= s.min_p <= 1, "0 to 1"),
        ("seed", request.seed, 0 <= request.seed < 1 << 64, "0 to 2^64 - 1"),
    )
    for name, value, good, expected in bounds:
        if not good:
            raise RequestError(f"{name} is {value}, expected {expected}")
    if not request.prompt:
        raise RequestError("the prompt is empty; give at least one token")
    if len(request.prompt) >= n_ctx:
        raise RequestError(
            f"prompt has {len(request.prompt):,} tokens; the context is {n_ctx:,} and must hold "
            "one more (raise n_ctx, or shorten the prompt)"
        )


def generate(
    runner: Runner, request: Request, forced: deque[int] | None = None
) -> Generator[Generated, None, None]:
    """Yield tokens until one of `stop_ids` (which is yielded too), `n_predict` or a full context.

    forced   ids that come next in place of chosen ones, oldest first; taken from the left as they
             are yielded, and the caller may add some after any token. They count as generated
             and never stop.

    RequestError as `check` says. The slot is freed however the caller stops.
    """
    check(request, runner.cache.n_ctx)
    slot = runner.cache.open()
    try:
        yield from answer(runner, slot, 0, request, deque[int]() if forced is None else forced)
    finally:
        runner.cache.close(slot)


def answer(
    runner: Runner, slot: int, n_held: int, request: Request, forced: deque[int]
) -> Generator[Generated, None, None]:
    """Yield what `generate` yields, from a slot that holds the prompt's first `n_held` tokens.

    The slot stays open. It holds the prompt and all that was yielded but for the last token, and
    for forced ones before it.
    """
    unfed = list(request.prompt[n_held:])
    n_most = min(request.n_predict, runner.cache.n_ctx - len(request.prompt))
    for n in range(1, n_most + 1):
        if forced:
            token_id, stops = forced.popleft(), False
        else:
            token_id = _choose(runner, slot, unfed, request)
            unfed, stops = [], token_id in request.stop_ids
        yield Generated(token_id, "stop" if stops else "length" if n == n_most else None)
        if stops:
            return
        unfed.append(token_id)


def _choose(runner: Runner, slot: int, unfed: Sequence[int], request: Request) -> int:
    """Feed the tokens that are still to be fed, and choose the one after them."""
    logits = prefill(runner, slot, unfed)
    uniform = uniform_at(request.seed, runner.cache.length(slot))
    return runner.ops.sample(logits, [request.sampling], [uniform])[0]


def prefill(runner: Runner, slot: int, prompt: Sequence[int]) -> F32:
    """Feed a prompt in steps of 512 tokens -> logits [1, n_vocab] after its last token."""
    for start in range(0, len(prompt), PREFILL_STEP):
        logits = runner.step([(slot, prompt[start : start + PREFILL_STEP])])
    return logits


def uniform_at(seed: int, pos: int) -> float:
    """The number in [0, 1) that chooses the token at a position (counter-based: Philox)."""
    return float(np.random.Generator(np.random.Philox(key=seed, counter=pos)).random())
