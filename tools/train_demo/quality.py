"""Measures what a finished model writes: real words, no loops, and bits a byte beside n-grams.

`python -m tools.train_demo.quality FAMILY --text DIR` takes the model in the box (or `--model`),
answers 20 requests with seeds 1 to 20 and 100 tokens each on the cpu backend, and reads the whole
held-out text. The baseline is a 5-gram model of the same tokens, trained on the same text. It fails
where a bound is missed. Needs neither torch nor transformers.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import junto
from junto.library import demos
from junto.model import Model
from tools.train_demo import ngram
from tools.train_demo.batches import Rows
from tools.train_demo.corpus import Corpus, read_corpus
from tools.train_demo.family import FAMILIES, NAMES, Family
from tools.train_demo.held_out import Nats, bits_per_byte, windows
from tools.train_demo.topics import WORD

SEEDS = range(1, 21)
N_TOK = 100
TEMPERATURE = 1.0
"""The model's own distribution; at 0.8 a 6-gram stands twice in one text of twelve."""
N_CTX = 512
TOPICS = ("fox", "girl and a cake", "bird", "king", "dog and a ball")
MIN_KNOWN_WORDS = 0.97
N_REPEATED = 6
MIN_BELOW_NGRAM = 0.15


def answers(model: Model) -> Iterator[str]:
    """What the model writes, 100 tokens a seed; the topics take turns."""
    for seed in SEEDS:
        request = f"Tell me a story about a {TOPICS[seed % len(TOPICS)]}."
        turn = [{"role": "user", "content": request}]
        reply = model.chat(
            turn, n_predict=N_TOK, seed=seed, temperature=TEMPERATURE, enable_thinking=False
        )
        yield "".join(event.text for event in reply if event.kind == "content")


def words(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return [word.lower() for word in WORD.findall(text)]


def repeated(text: str, n: int = N_REPEATED) -> list[str]:
    """The n-grams of words that stand in a text more than once."""
    found = words(text)
    grams = [" ".join(found[i : i + n]) for i in range(len(found) - n + 1)]
    return sorted({gram for gram in grams if grams.count(gram) > 1})


def token_nats(model: Model, rows: Rows) -> Nats:
    """Nats of each token but the first of a window, each window alone."""
    nats = []
    for row in rows:
        logits = model.logits(row[:-1]).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        chosen = logits[np.arange(len(logits)), row[1:]]
        nats.append(np.log(np.exp(logits).sum(axis=1)) - chosen)
    return np.stack(nats)


def held_out_bits(model: Model, family: Family, corpus: Corpus) -> float:
    """Bits a byte of the whole held-out text."""
    tokenizer = model.text.tokenizer
    marked = (family.before + text + family.after for text in corpus.held_out)
    ids = [tokenizer.encode(text, special=True) for text in marked]
    held_out, _ = windows(ids, tokenizer.decode, N_CTX)
    return bits_per_byte(lambda rows: token_nats(model, rows), held_out)


def measure(model: Model, family: Family, corpus: Corpus) -> dict[str, object]:
    """The figures of one model; the last tells whether all bounds hold."""
    known = frozenset(words(corpus.training_text))
    texts = list(answers(model))
    written = [word for text in texts for word in words(text)]
    share_known = sum(word in known for word in written) / len(written)
    loops = [gram for text in texts for gram in repeated(text)]
    bits = held_out_bits(model, family, corpus)
    tokenizer = model.text.tokenizer
    units = ngram.Units(partial(tokenizer.encode, special=False), tokenizer.n_vocab - 1)
    baseline = ngram.bits_per_byte(corpus, 5, units)
    below = 1 - bits / baseline
    return {
        "model": model.name,
        "words": len(written),
        "share_of_known_words": round(share_known, 4),
        "unknown_words": sorted({word for word in written if word not in known}),
        "repeated_6_grams": loops,
        "held_out_bits_per_byte": round(bits, 4),
        "5_gram_bits_per_byte": round(baseline, 4),
        "below_5_gram": round(below, 4),
        "holds": share_known >= MIN_KNOWN_WORDS and not loops and below >= MIN_BELOW_NGRAM,
    }


def main() -> None:
    """Print the figures as JSON; exit code 1 where a bound is missed."""
    options = argparse.ArgumentParser(prog="python -m tools.train_demo.quality")
    options.add_argument("family", choices=NAMES)
    options.add_argument("--text", type=Path, required=True, help="folder with text/")
    options.add_argument("--model", type=Path, help="another file than the one in the box")
    options.add_argument("--show", action="store_true", help="print the texts too")
    given = options.parse_args()
    model = junto.load(given.model or demos.path_of(given.family))
    if given.show:
        print(*answers(model), sep="\n\n---\n\n")
    corpus = read_corpus(given.text / "text")
    found = measure(model, FAMILIES[given.family], corpus)
    print(json.dumps(found, indent=1))
    sys.exit(0 if found["holds"] else 1)


if __name__ == "__main__":
    main()
