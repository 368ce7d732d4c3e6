"""The n-gram baseline is a probability and the one that its formula says."""

import numpy as np
import pytest

from tools.train_demo.ngram import NGram


def test_probabilities_of_all_tokens_sum_to_one_after_seen_and_unseen_contexts() -> None:
    n_vocab, n = 7, 3
    text = np.random.default_rng(0).integers(0, n_vocab - 1, 60)
    model = NGram(text, n, n_vocab)
    for context in ([1, 2], [5, 0], [6, 6]):
        rows = [np.array([*context, token]) for token in range(n_vocab)]
        total = sum(float(model.probabilities(row)[0]) for row in rows)
        assert total == pytest.approx(1.0, abs=1e-12)


def test_a_bigram_model_equals_the_formula_by_hand() -> None:
    """Text 0 1 0 2 0 1: bigrams 01 x2, 10, 02, 20; each discount is n1 / (n1 + 2 n2).

    Predecessor counts: 0 has {1, 2}, 1 has {0}, 2 has {0}; so for unigrams the discount is
    2 / (2 + 2) = 1/2, for bigrams 3 / (3 + 2) = 3/5.
    """
    model = NGram(np.array([0, 1, 0, 2, 0, 1]), 2, 4)
    unigram = {
        1: (1 - 0.5) / 4 + 0.5 * 3 / 4 * (1 / 4),
        3: 0.5 * 3 / 4 * (1 / 4),
    }
    after_0 = {
        1: (2 - 0.6) / 3 + 0.6 * 2 / 3 * unigram[1],
        3: 0.6 * 2 / 3 * unigram[3],
    }
    for token, expected in after_0.items():
        assert model.probabilities(np.array([0, token]))[0] == pytest.approx(expected, abs=1e-12)
    assert model.probabilities(np.array([3, 1]))[0] == pytest.approx(unigram[1], abs=1e-12)
