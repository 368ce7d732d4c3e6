"""The generation loop on a model that counts."""

import dataclasses
from collections import deque
from typing import Any

import pytest

from junto.engine.generation import Request, check, generate, uniform_at
from junto.errors import RequestError
from junto.ops.contract import Sampling
from tests.engine.counting_model import counting_runner

GREEDY = Sampling(temperature=0)


def request(prompt: list[int], n_predict: int = 5) -> Request:
    return Request(prompt, n_predict, GREEDY, seed=7, stop_ids=frozenset({20}))


def test_continues_the_prompt_and_says_why_it_ends() -> None:
    runner, _ = counting_runner()
    tokens = list(generate(runner, request([3, 4])))
    assert [t.token_id for t in tokens] == [5, 6, 7, 8, 9]
    assert [t.finish_reason for t in tokens] == [None, None, None, None, "length"]


def test_a_stop_token_is_the_last_one() -> None:
    runner, _ = counting_runner()
    tokens = list(generate(runner, request([17])))
    assert [t.token_id for t in tokens] == [18, 19, 20]
    assert tokens[-1].finish_reason == "stop"


def test_a_stop_token_as_last_allowed_token_counts_as_stop() -> None:
    runner, _ = counting_runner()
    assert list(generate(runner, request([19], n_predict=1)))[-1].finish_reason == "stop"


def test_prompts_are_fed_in_steps_of_512_and_no_step_follows_the_last_token() -> None:
    runner, architecture = counting_runner()
    list(generate(runner, request([1] * 1030, n_predict=3)))
    assert architecture.steps == [512, 512, 6, 1, 1]


def test_ends_with_a_full_context() -> None:
    runner, _ = counting_runner(n_ctx=10)
    tokens = list(generate(runner, request([1] * 8, n_predict=50)))
    assert len(tokens) == 2
    assert tokens[-1].finish_reason == "length"


def test_the_slot_is_free_again_however_the_caller_stops() -> None:
    runner, _ = counting_runner(n_slot=1)
    for _ in range(3):
        stream = generate(runner, request([3]))
        next(stream)
        stream.close()
    assert len(list(generate(runner, request([3])))) == 5


def test_a_failing_step_frees_the_slot() -> None:
    runner, architecture = counting_runner(n_slot=1)

    architecture.fails = True
    with pytest.raises(MemoryError):
        next(generate(runner, request([3])))
    architecture.fails = False
    assert len(list(generate(runner, request([3])))) == 5


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_predict": 0}, "n_predict is 0, expected at least 1"),
        ({"sampling": Sampling(temperature=-1)}, "temperature is -1, expected 0 to 100"),
        ({"sampling": Sampling(temperature=float("nan"))}, "temperature is nan"),
        ({"sampling": Sampling(top_k=-1)}, "top_k is -1, expected at least 0"),
        ({"sampling": Sampling(top_p=0)}, "top_p is 0, expected above 0"),
        ({"sampling": Sampling(min_p=1.5)}, "min_p is 1.5, expected 0 to 1"),
        ({"seed": 1 << 64}, "seed is 18446744073709551616"),
        ({"prompt": []}, "the prompt is empty"),
        ({"prompt": [1] * 40_112}, "prompt has 40,112 tokens; the context is 32,768"),
    ],
)
def test_arguments_out_of_range_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError, match=text):
        check(dataclasses.replace(request([1]), **changes), n_ctx=32_768)


def test_the_random_number_depends_on_seed_and_position_alone() -> None:
    assert uniform_at(7, 100) == uniform_at(7, 100)
    numbers = {uniform_at(seed, pos) for seed in range(20) for pos in range(20)}
    assert len(numbers) == 400
    assert all(0 <= u < 1 for u in numbers)


def test_forced_tokens_come_next_and_are_fed_in_one_step() -> None:
    runner, architecture = counting_runner()
    forced: deque[int] = deque()
    told = []
    for token in generate(runner, request([3], n_predict=7), forced):
        told.append(token.token_id)
        if token.token_id == 5:
            forced.extend([30, 31, 40])
    assert told == [4, 5, 30, 31, 40, 41, 42]
    assert architecture.steps == [1, 1, 4, 1]


def test_tokens_forced_before_the_first_go_with_the_prompt() -> None:
    runner, architecture = counting_runner()
    tokens = generate(runner, request([3, 4], n_predict=3), deque([7, 8]))
    assert [t.token_id for t in tokens] == [7, 8, 9]
    assert architecture.steps == [4]


def test_forced_tokens_count_and_never_stop() -> None:
    runner, _ = counting_runner()
    tokens = list(generate(runner, request([3], n_predict=2), deque([20, 20, 20])))
    assert [(t.token_id, t.finish_reason) for t in tokens] == [(20, None), (20, "length")]


def test_forcing_what_would_be_chosen_changes_nothing_after_it() -> None:
    """The number that chooses a token depends on its position, however the ones before came."""
    runner, _ = counting_runner()
    hot = dataclasses.replace(request([3], n_predict=12), sampling=Sampling(temperature=30.0))
    free = [t.token_id for t in generate(runner, hot)]
    assert len(set(free)) > 5
    assert [t.token_id for t in generate(runner, hot, deque(free[:4]))] == free
