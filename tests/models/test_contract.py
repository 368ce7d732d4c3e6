"""What every architecture must hold, tried on every tiny model.

However tokens are cut into steps and whoever else is in the batch, a sequence gets the same logits.
Where sums run in another order the reference promises this to float32's noise, and where the same
computation runs to the bit.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from junto.engine.runner import Runner
from junto.errors import RequestError
from junto.models.architecture import architectures
from tests.models.running import N_SLOT, error, feed, logits, recorded, running
from tests.tiny.models import MIXES, TINY

BOUND = 1e-5
"""Of the largest |logit|. Measured: up to 1e-11, since the reference sums in float64; the faults
this looks for (a mask off by one, a lost state) give 1e-3 and more."""
N_TOK = 150
"""Beyond two blocks of 64 and every window but none of the contexts."""

FUSED = ("in_proj_qkvz.weight", "in_proj_ba.weight")
"""Stored matrices that are read as two."""

Files = Callable[[str], Path]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A file of each model or mix, written once."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def file(name: str) -> Path:
        if name in MIXES:
            return MIXES[name].write_gguf(folder / f"{name}.gguf")
        return TINY[name].write_safetensors(folder / name)

    return file


def ids_of(name: str, n_tok: int = N_TOK, start: int = 0) -> list[int]:
    model = MIXES[name].model if name in MIXES else TINY[name]
    return [int(i) for i in model.tokens(start + n_tok)[start:]]


every_model = pytest.mark.parametrize("name", TINY)


def test_every_architecture_has_a_tiny_model(files: Files) -> None:
    tried = {running(files(name)).blueprint.architecture.__name__ for name in TINY}
    assert tried == {architecture.__name__ for architecture in architectures()}


@every_model
def test_logits_are_finite_float32_one_row_a_token(name: str, files: Files) -> None:
    rows = logits(files(name), ids_of(name))
    assert rows.shape == (N_TOK, TINY[name].n_vocab)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert np.abs(np.diff(rows, axis=0)).max(axis=1).min() > 1e-3  # no row repeats the one before


@pytest.mark.parametrize(
    ("name", "step"),
    [*((name, step) for name in TINY for step in (1, 3, 7, 64)), *((mix, 64) for mix in MIXES)],
)
def test_prompt_in_steps_equals_the_whole(name: str, step: int, files: Files) -> None:
    runner = running(files(name)).runner
    whole = feed(runner, runner.cache.open(), ids_of(name))
    assert error(feed(runner, runner.cache.open(), ids_of(name), step), whole) < BOUND


@every_model
@pytest.mark.parametrize("n_prompt", [63, 64, 65, 129])
def test_prefill_and_decode_equal_the_full_forward(name: str, n_prompt: int, files: Files) -> None:
    """Each kind of step ends or begins at the edge of a chunk; one token may be left to compute."""
    runner = running(files(name)).runner
    ids = ids_of(name)
    whole = feed(runner, runner.cache.open(), ids)
    slot = runner.cache.open()
    last = runner.step([(slot, ids[:n_prompt])])
    assert error(last, whole[n_prompt - 1 : n_prompt]) < BOUND
    assert error(feed(runner, slot, ids[n_prompt:], 1), whole[n_prompt:]) < BOUND


@every_model
def test_ragged_batch_equals_each_alone(name: str, files: Files) -> None:
    runner = running(files(name)).runner
    lengths = ((5, 70, 1, 131), (66, 1, 3, 2))
    slots = [runner.cache.open() for _ in range(N_SLOT)]
    ids = [ids_of(name, start=40 * i) for i in range(N_SLOT)]
    begin = [0] * N_SLOT
    for step in lengths:
        parts = [ids[i][begin[i] : begin[i] + n] for i, n in enumerate(step)]
        rows = runner.step(list(zip(slots, parts, strict=True)), all_logits=True)
        for i, got in enumerate(np.split(rows, np.cumsum(step)[:-1])):
            alone = logits(files(name), ids[i][: begin[i] + step[i]])
            assert error(got, alone[begin[i] :]) < BOUND
        begin = [b + n for b, n in zip(begin, step, strict=True)]


@every_model
def test_order_of_sequences_in_a_batch_does_not_matter(name: str, files: Files) -> None:
    runner = running(files(name)).runner
    slots = [runner.cache.open() for _ in range(3)]
    ids = [ids_of(name, 20, start=30 * i) for i in range(3)]
    runner.step([(slots[i], ids[i][:15]) for i in (2, 0, 1)])
    rows = runner.step([(slots[i], ids[i][15:]) for i in (1, 2, 0)])
    for i, row in zip((1, 2, 0), rows, strict=True):
        assert error(row, logits(files(name), ids[i])[-1]) < BOUND


@every_model
def test_slot_used_again_equals_a_fresh_one(name: str, files: Files) -> None:
    runner = running(files(name)).runner
    slot = runner.cache.open()
    feed(runner, slot, ids_of(name, start=100))
    runner.cache.close(slot)
    again = runner.cache.open()
    assert again == slot
    assert np.array_equal(feed(runner, again, ids_of(name)), logits(files(name), ids_of(name)))


@every_model
def test_sequences_in_turn_equal_each_alone(name: str, files: Files) -> None:
    """Elsewhere three slots shared recurrent scratch: replies fluent, and mixed up."""
    runner = running(files(name)).runner
    slots = [runner.cache.open() for _ in range(N_SLOT)]
    ids = [ids_of(name, 72, start=25 * i) for i in range(N_SLOT)]
    rows: list[list[Any]] = [[] for _ in slots]
    for start in range(0, 72, 9):
        for i in np.roll(range(N_SLOT), start):
            rows[i].append(feed(runner, slots[i], ids[i][start : start + 9], step=9 - i))
    for i in range(N_SLOT):
        alone = running(files(name)).runner
        slot = alone.cache.open()
        steps = [feed(alone, slot, ids[i][n : n + 9], step=9 - i) for n in range(0, 72, 9)]
        assert np.array_equal(np.concatenate(rows[i]), np.concatenate(steps))


def greedy(runner: Runner, slots: list[int], prompt: list[int], n: int) -> Iterator[list[int]]:
    """Tokens of equal prompts that start one step after the other."""
    answers: list[list[int]] = [[] for _ in slots]
    for turn in range(n + len(slots) - 1):
        running_now = [i for i in range(len(slots)) if i <= turn < i + n]
        work = [(slots[i], answers[i][-1:] or prompt) for i in running_now]
        for i, row in zip(running_now, runner.step(work), strict=True):
            answers[i].append(int(row.argmax()))
    yield from answers


@every_model
def test_equal_greedy_prompts_give_one_distinct_answer(name: str, files: Files) -> None:
    runner = running(files(name)).runner
    slots = [runner.cache.open() for _ in range(N_SLOT)]
    answers = list(greedy(runner, slots, ids_of(name, 50), 24))
    assert {len(answer) for answer in answers} == {24}
    assert len(set(map(tuple, answers))) == 1
    assert len(set(answers[0])) > 3


@every_model
def test_ragged_batch_calls_each_op_as_often_as_one_sequence(name: str, files: Files) -> None:
    runner, recorder = recorded(files(name))
    runner.step([(runner.cache.open(), ids_of(name, 5))])
    alone = [(call.op, call.weight) for call in recorder.calls]
    recorder.calls.clear()
    lengths = (4, 70, 1)
    runner.step([(runner.cache.open(), ids_of(name, n)) for n in lengths])
    assert [(call.op, call.weight) for call in recorder.calls] == alone
    matrices = Counter(weight for op, weight in alone if op == "linear")
    assert {n for weight, n in matrices.items() if not weight.endswith(FUSED)} == {1}
    assert {n for weight, n in matrices.items() if weight.endswith(FUSED)} <= {2}
    *layers, head = (call for call in recorder.calls if call.op == "linear")
    assert {call.n_row for call in layers} == {sum(lengths)}
    assert head.n_row == len(lengths)


@every_model
def test_head_sees_only_the_rows_asked_for(name: str, files: Files) -> None:
    runner, recorder = recorded(files(name))
    slot = runner.cache.open()
    for all_logits, n_row in ((False, 1), (True, 30)):
        recorder.calls.clear()
        runner.step([(slot, ids_of(name, 30))], all_logits=all_logits)
        head = recorder.calls[-1]
        assert (head.op, head.n_row) == ("linear", n_row)
        assert head.weight.endswith(("lm_head.weight", "embed_tokens.weight", "wte.weight"))


@every_model
def test_tokens_dropped_are_as_if_never_fed(name: str, files: Files) -> None:
    runner = running(files(name)).runner
    ids, others = ids_of(name), ids_of(name, 50, start=200)
    whole = logits(files(name), ids)
    for kept in (70, 64):  # the recurrent state stands at 64
        slot = runner.cache.open()
        feed(runner, slot, [*ids[:kept], *others])
        runner.cache.truncate(slot, kept)
        assert runner.cache.length(slot) == kept
        assert error(feed(runner, slot, ids[kept:], step=31), whole[kept:]) < BOUND
        runner.cache.close(slot)


@pytest.mark.parametrize(
    ("name", "n_fed", "n_kept", "reason"),
    [
        ("qwen35moe_ratio1", 130, 100, "recurrent state at 128 keeps no earlier snapshot"),
        ("qwen35moe_ratio4", 65, 63, "recurrent state at 64 keeps no earlier snapshot"),
        ("qwen3next", 130, 100, "recurrent state at 128 keeps no earlier snapshot"),
        ("gpt_oss_window32", 300, 10, "the sliding window's keys before 192 are freed"),
        ("gpt_oss_window128", 400, 100, "the sliding window's keys before 192 are freed"),
    ],
)
def test_dropping_too_much_is_refused_and_changes_nothing(
    name: str, n_fed: int, n_kept: int, reason: str, files: Files
) -> None:
    runner = running(files(name)).runner
    ids = ids_of(name, n_fed + 9)
    slot = runner.cache.open()
    feed(runner, slot, ids[:n_fed])
    with pytest.raises(RequestError, match=reason):
        runner.cache.truncate(slot, n_kept)
    assert runner.cache.length(slot) == n_fed
    whole = logits(files(name), ids)
    assert error(feed(runner, slot, ids[n_fed:]), whole[n_fed:]) < BOUND


@pytest.mark.parametrize("name", ["llama_tied", "llama_untied", "qwen3", "qwen3moe", "gpt2"])
def test_plain_attention_drops_any_number(name: str, files: Files) -> None:
    runner = running(files(name)).runner
    slot = runner.cache.open()
    ids = ids_of(name)
    feed(runner, slot, ids_of(name, 200, start=3))
    runner.cache.truncate(slot, 0)
    assert error(feed(runner, slot, ids), logits(files(name), ids)) < BOUND
