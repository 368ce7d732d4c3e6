"""A slot that is kept between answers: what is read again, and that no token changes by it."""

import dataclasses
from collections import deque
from pathlib import Path

import pytest

import junto
from junto.engine.conversation import Conversation
from junto.engine.generation import Request, generate
from junto.errors import RequestError
from junto.ops.contract import Sampling
from tests.engine.counting_model import counting_runner
from tests.tiny.models import TINY


def request(prompt: list[int], n_predict: int = 5) -> Request:
    return Request(prompt, n_predict, Sampling(temperature=0), seed=7, stop_ids=frozenset({20}))


def test_the_next_turn_reads_only_what_is_new() -> None:
    runner, architecture = counting_runner()
    conversation = Conversation(runner)
    told = [t.token_id for t in conversation.generate(request([3, 4]))]
    architecture.steps.clear()
    # The last token told was never fed, so it is read with the new ones.
    again = [t.token_id for t in conversation.generate(request([3, 4, *told, 30, 31], 2))]
    assert again == [32, 33]
    assert conversation.n_kept == 6
    assert architecture.steps == [3, 1]


def test_what_differs_is_dropped_and_read_again() -> None:
    runner, architecture = counting_runner()
    conversation = Conversation(runner)
    list(conversation.generate(request([1, 2, 3, 4])))
    architecture.steps.clear()
    assert [t.token_id for t in conversation.generate(request([1, 2, 40], 1))] == [41]
    assert conversation.n_kept == 2
    assert architecture.steps == [1]


def test_the_same_prompt_reads_its_last_token_again() -> None:
    runner, architecture = counting_runner()
    conversation = Conversation(runner)
    first = list(conversation.generate(request([5, 6, 7])))
    architecture.steps.clear()
    assert list(conversation.generate(request([5, 6, 7]))) == first
    assert conversation.n_kept == 2
    assert architecture.steps[0] == 1


def test_an_answer_left_early_keeps_what_was_fed() -> None:
    runner, _ = counting_runner()
    conversation = Conversation(runner)
    tokens = conversation.generate(request([3]))
    told = [next(tokens).token_id for _ in range(3)]
    tokens.close()
    list(conversation.generate(request([3, *told, 9], 1)))
    assert conversation.n_kept == 3


def test_forced_tokens_that_were_never_fed_are_read_with_the_next_prompt() -> None:
    runner, architecture = counting_runner()
    conversation = Conversation(runner)
    told = [t.token_id for t in conversation.generate(request([3], 3), deque([30, 31, 32]))]
    assert told == [30, 31, 32]
    assert [t.token_id for t in conversation.generate(request([3, *told], 1))] == [33]
    assert conversation.n_kept == 0
    assert architecture.steps == [4]


def test_a_failing_step_frees_the_slot_and_the_next_answer_begins_anew() -> None:
    runner, architecture = counting_runner(n_slot=1)
    conversation = Conversation(runner)
    list(conversation.generate(request([3, 4])))
    architecture.fails = True
    with pytest.raises(MemoryError):
        next(conversation.generate(request([3, 4, 9])))
    architecture.fails = False
    assert next(generate(runner, request([3]))).token_id == 4
    assert next(conversation.generate(request([3, 4]))).token_id == 5
    assert conversation.n_kept == 0


def test_close_frees_the_slot() -> None:
    runner, _ = counting_runner(n_slot=1)
    conversation = Conversation(runner)
    list(conversation.generate(request([3])))
    with pytest.raises(RequestError, match="all 1 slots are taken"):
        next(generate(runner, request([3])))
    conversation.close()
    conversation.close()
    assert next(generate(runner, request([3]))).token_id == 4


def test_one_answer_at_a_time() -> None:
    runner, _ = counting_runner()
    conversation = Conversation(runner)
    tokens = conversation.generate(request([3]))
    next(tokens)
    with pytest.raises(RequestError, match="still open"):
        next(conversation.generate(request([3])))
    tokens.close()
    assert next(conversation.generate(request([3]))).token_id == 4


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("name", "n_kept"),
    [
        # Turns of 90 tokens and answers of 6. The second turn continues the first, the third
        # goes back 8 of 191 tokens, the fourth 152 more: full attention can, a window and recurrent
        # layers read anew.
        ("llama_tied", [0, 95, 183, 40]),
        ("gpt_oss_window32", [0, 95, 183, 0]),
        ("qwen35moe_ratio2", [0, 95, 183, 0]),
    ],
)
def test_tokens_are_those_of_a_fresh_slot(
    name: str, n_kept: list[int], backend: str, tmp_path: Path
) -> None:
    model = junto.load(TINY[name].write_gguf(tmp_path / "m.gguf"), backend=backend, n_ctx=400)
    words = [int(token) for token in TINY[name].tokens(300)]
    hot = dataclasses.replace(
        request([0], 6), sampling=Sampling(temperature=2.0, top_k=0), stop_ids=frozenset()
    )
    conversation = Conversation(model.runner)

    def turn(prompt: list[int]) -> tuple[list[int], int]:
        """Both give the same tokens; what they are, and how many of the prompt were kept."""
        asked = dataclasses.replace(hot, prompt=prompt)
        told = [t.token_id for t in conversation.generate(asked)]
        assert told == [t.token_id for t in generate(model.runner, asked)]
        return told, conversation.n_kept

    first = words[:90]
    told, kept_1 = turn(first)
    second = [*first, *told, *words[90:180]]
    _, kept_2 = turn(second)
    _, kept_3 = turn([*second[:183], *words[200:220]])
    _, kept_4 = turn([*second[:40], *words[230:300]])
    assert [kept_1, kept_2, kept_3, kept_4] == n_kept


@pytest.mark.parametrize("name", ["gpt_oss_window32", "qwen35moe_ratio2"])
def test_logits_after_going_back_have_the_bits_of_a_fresh_slot(name: str, tmp_path: Path) -> None:
    model = junto.load(TINY[name].write_gguf(tmp_path / "m.gguf"), n_ctx=400)
    words = [int(token) for token in TINY[name].tokens(300)]
    runner, prompt = model.runner, [*words[:170], *words[200:207]]
    conversation = Conversation(runner)
    list(conversation.generate(request(words[:180], 4)))
    list(conversation.generate(request(prompt, 1)))
    assert conversation.n_kept == 170
    # The slot holds the whole prompt now; one more step shows all of its state.
    (slot,) = set(range(runner.cache.n_slot)) - set(runner.cache._free)
    kept = runner.step([(slot, [5])])
    assert kept.tobytes() == model.logits([*prompt, 5])[-1:].tobytes()
