"""The runner: what one step demands of its slots."""

import pytest

from junto.errors import RequestError
from tests.engine.counting_model import N_VOCAB, counting_runner


def test_one_row_a_sequence_or_all_rows() -> None:
    runner, _ = counting_runner()
    first, second = runner.cache.open(), runner.cache.open()
    work = [(first, [1, 2, 3]), (second, [7])]
    assert runner.step(work).shape == (2, N_VOCAB)
    assert runner.step(work, all_logits=True).shape == (4, N_VOCAB)
    assert runner.cache.length(first) == 6
    assert runner.cache.length(second) == 2


def test_beyond_the_context_nothing_advances() -> None:
    runner, architecture = counting_runner(n_ctx=66)
    slot, other = runner.cache.open(), runner.cache.open()
    runner.step([(slot, [1] * 64)])
    with pytest.raises(RequestError, match=f"slot {slot}: 67 tokens do not fit the context of 66"):
        runner.step([(other, [1]), (slot, [1, 2, 3])])
    assert runner.cache.length(slot) == 64
    assert runner.cache.length(other) == 0
    assert architecture.steps == [64]
