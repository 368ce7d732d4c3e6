"""The draft head's first guess is accepted as often as llama.cpp's, on trained weights."""

from pathlib import Path

import numpy as np
import pytest

import junto
from tests.data_dir import REPOSITORY
from tests.draft_acceptance import (
    N_WINDOW,
    acceptance,
    accepted,
    golden,
    held_out_windows,
    ids_sha256,
    weights_sha256,
)
from tests.tiny.random_weights import F32, I64

BOUND = 0.02
"""Two points: of a guess in a hundred the roundings of both may decide otherwise."""


class Parrot:
    """Says the last token again; its draft guesses the token that stands three back."""

    def logits(self, token_ids: I64) -> F32:
        return np.eye(10, dtype=np.float32)[token_ids]

    def draft_logits(self, token_ids: I64) -> F32:
        return np.eye(10, dtype=np.float32)[np.roll(token_ids, 2)[1:]]


def test_a_guess_is_accepted_where_the_model_says_the_same_one_token_later() -> None:
    ids = np.array([1, 2, 3, 1, 2, 3, 4])
    # the model says token i + 1 again; guess 0 is token 6, and guess i token i - 1
    assert accepted(Parrot(), ids).tolist() == [False, False, False, False, False, False]
    ids = np.array([7, 5, 7, 5, 5, 7])
    assert accepted(Parrot(), ids).tolist() == [False, True, True, False, False]
    assert accepted(Parrot(), ids, n_given=3).tolist() == [True, False, False]
    assert acceptance(Parrot(), [ids, ids]) == pytest.approx(0.4)


def demo_model() -> Path:
    """The demo model that has a draft head; skips where the repository holds none."""
    for path in sorted((REPOSITORY / "src" / "junto" / "demo").glob("*qwen35moe*.gguf")):
        return path
    pytest.skip("needs the demo model qwen35moe in junto/demo")


def test_the_demo_model_accepts_as_much_as_by_llama_cpp() -> None:
    path = demo_model()
    recorded = golden().get(weights_sha256(path))
    command = f"python tools/draft_acceptance.py {path.name} --record"
    assert recorded is not None, f"llama.cpp's share is not recorded for these weights: {command}"
    model = junto.load(path, draft=True)
    windows = held_out_windows(model.text, N_WINDOW)
    assert ids_sha256(windows) == recorded["ids_sha256"]
    ours = acceptance(model, windows)
    assert ours > 0.3
    assert ours == pytest.approx(recorded["accepted"], abs=BOUND)
