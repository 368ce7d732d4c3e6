"""The baseline: an interpolated Kneser-Ney n-gram model over the same tokens, in bits per byte.

`python -m tools.train_demo.ngram --text DIR --tokenizer FILE` trains it on the training text and
measures the held-out text, once over the demonstration model's tokens and once over bytes. Counts
of order n below the highest are of distinct predecessors; one discount an order, n1 / (n1 + 2 n2)
(Chen and Goodman 1999). n-grams are integers in base n_vocab, so counting is sorting.
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from tools.train_demo.corpus import Corpus, read_corpus

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Order:
    """The n-grams of one length: sorted keys and counts, and the same for their contexts."""

    keys: I64
    counts: I64
    contexts: I64
    totals: I64
    n_followers: I64

    @property
    def discount(self) -> float:
        """What each count gives up to the shorter context."""
        once, twice = (int((self.counts == n).sum()) for n in (1, 2))
        return once / (once + 2 * twice) if once else 0.5


class NGram:
    """A trained model; `probabilities` is all it can do."""

    def __init__(self, ids: I64, n: int, n_vocab: int) -> None:
        assert n_vocab**n < 2**63, "an n-gram must fit an integer"
        self.n_vocab = n_vocab
        keys, counts = np.unique(_grams(ids, n, n_vocab), return_counts=True)
        orders = [_order(keys, counts, n_vocab)]
        for length in range(n - 1, 0, -1):
            keys, counts = np.unique(keys % n_vocab**length, return_counts=True)
            orders.append(_order(keys, counts, n_vocab))
        self.orders = orders[::-1]

    def probabilities(self, ids: I64) -> F64:
        """Of each token after the first n - 1, given the n - 1 before it."""
        n = len(self.orders)
        result = np.full(len(ids) - n + 1, 1.0 / self.n_vocab)
        for length, order in enumerate(self.orders, start=1):
            grams = _grams(ids, length, self.n_vocab)[n - length :]
            count = _look_up(order.keys, order.counts, grams)
            context = grams // self.n_vocab
            total = _look_up(order.contexts, order.totals, context)
            n_follower = _look_up(order.contexts, order.n_followers, context)
            known = total > 0
            kept = np.maximum(count - order.discount, 0) + order.discount * n_follower * result
            result = np.where(known, kept / np.where(known, total, 1), result)
        return result


def _grams(ids: I64, n: int, n_vocab: int) -> I64:
    keys = np.zeros(len(ids) - n + 1, np.int64)
    for offset in range(n):
        keys = keys * n_vocab + ids[offset : len(ids) - n + 1 + offset]
    return keys


def _order(keys: I64, counts: I64, n_vocab: int) -> Order:
    contexts, starts, n_followers = np.unique(
        keys // n_vocab, return_index=True, return_counts=True
    )
    return Order(keys, counts, contexts, np.add.reduceat(counts, starts), n_followers)


def _look_up(keys: I64, values: I64, wanted: I64) -> I64:
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, values[index], 0)


@dataclass(frozen=True, slots=True)
class Units:
    """What a text is counted in: `encode` gives ids, `marker`, the last, stands before a text."""

    encode: Callable[[str], Sequence[int]]
    marker: int


BYTES = Units(lambda text: list(text.encode()), 256)


def bits_per_byte(corpus: Corpus, n: int, units: Units) -> float:
    """Of the held-out texts, under a model of the training texts."""
    train = np.concatenate([_ids(text, n, units) for text in [*corpus.books, *corpus.stories]])
    model = NGram(train, n, units.marker + 1)
    bits = sum(
        -float(np.log2(model.probabilities(_ids(text, n, units))).sum()) for text in corpus.held_out
    )
    return bits / sum(len(text.encode()) for text in corpus.held_out)


def _ids(text: str, n: int, units: Units) -> I64:
    """A text's tokens after n - 1 markers of its beginning."""
    return np.asarray([units.marker] * (n - 1) + list(units.encode(text)), np.int64)


def main() -> None:
    """Print the baselines as one JSON line."""
    options = argparse.ArgumentParser(prog="python -m tools.train_demo.ngram")
    options.add_argument("--text", type=Path, required=True, help="folder with text/")
    options.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    options.add_argument("--order", type=int, default=5)
    given = options.parse_args()
    corpus = read_corpus(given.text / "text")
    tokenizer = Tokenizer.from_file(str(given.tokenizer))
    tokens = Units(
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        tokenizer.get_vocab_size() - 1,
    )
    results = {
        "order": given.order,
        "bits_per_byte_of_tokens": round(bits_per_byte(corpus, given.order, tokens), 4),
        "bits_per_byte_of_bytes": round(bits_per_byte(corpus, given.order, BYTES), 4),
    }
    assert all(math.isfinite(value) for value in results.values())
    print(json.dumps(results))


if __name__ == "__main__":
    main()
