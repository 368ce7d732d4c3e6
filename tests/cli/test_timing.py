"""Figures at the end of a run."""

import time

import pytest

from junto.cli.timing import Timing


def test_rates_count_the_right_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 prompt tokens in 2 s to the first token; then 3 tokens in 6 s."""
    moments = iter([10.0, 12.0, 13.0, 15.0, 18.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    timing = Timing(n_prompt=8, load_s=0.25, _start=next(moments))
    for n in range(1, 5):
        timing.tokens(n)
    assert timing.as_json() == {
        "load_s": 0.25,
        "first_token_s": 2.0,
        "prefill_tokens_per_s": 4.0,
        "decode_tokens_per_s": 0.5,
    }
    assert timing.line() == (
        "load 0.25 s | prefill 8 tokens at 4.0 tokens/s | first token after 2.00 s"
        " | decode 4 tokens at 0.5 tokens/s"
    )


def test_an_answer_that_never_began_has_no_rates() -> None:
    timing = Timing(n_prompt=8, load_s=0.25)
    assert timing.as_json()["first_token_s"] is None
    assert timing.line() == "load 0.25 s | decode 0 tokens"


def test_one_token_has_no_decode_rate() -> None:
    timing = Timing(n_prompt=8, load_s=0.25)
    timing.tokens(1)
    assert timing.decode_tokens_per_s is None


def test_markup_before_the_first_word_does_not_quicken_decoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three tokens pass before anything is told; two more take 4 s."""
    moments = iter([2.0, 6.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    timing = Timing(n_prompt=8, load_s=0.25, _start=0.0)
    timing.tokens(3)
    timing.tokens(5)
    assert timing.n_generated == 5
    assert timing.decode_tokens_per_s == 0.5
