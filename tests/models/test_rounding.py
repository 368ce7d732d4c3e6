"""Activations in 8 bits on trained weights: no further from float activations than llama.cpp's."""

from pathlib import Path

import numpy as np
import pytest

import junto
from tests.tiny import rounding


@pytest.mark.slow
@pytest.mark.parametrize("name", rounding.names())
def test_mean_kl_is_no_larger_than_llama_cpp_s(name: str) -> None:
    path = rounding.file_of(name)
    assert mean_kl(path, rounding.text_of(name)) <= rounding.golden()[name]


def mean_kl(path: Path, text: str) -> float:
    """Of the cpu backend from the reference, nats a token."""
    exact = junto.load(path, backend="reference")
    rounded = junto.load(path, kv="f32")
    ids = exact.text.tokenizer.encode(text, special=False)[: rounding.N_IDS]
    chunks = np.array(ids).reshape(-1, rounding.N_CHUNK)
    pairs = [(exact.logits(chunk), rounded.logits(chunk)) for chunk in chunks]
    return float(np.mean([rounding.mean_kl(a, b) for a, b in pairs]))
