"""A byte-level BPE of a few thousand tokens, in the form of a family's tokenizer.json.

Knows nothing of models. Merges come first, added tokens last, as in the published tokenizers.
"""

import random
from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from tools.train_demo.batches import passage_lengths
from tools.train_demo.corpus import Corpus, passages
from tools.train_demo.dialogue import converse
from tools.train_demo.family import Family
from tools.train_demo.render import Renderer
from tools.train_demo.topics import find_topics

N_RENDERED = 4000
"""Conversations that the tokenizer sees beside the text, for the words of templates."""


def train_tokenizer(family: Family, texts: Iterable[str], n_vocab: int) -> Tokenizer:
    """A tokenizer with exactly `n_vocab` ids, added tokens included.

    ValueError if the texts have too few different words for that many merges.
    """
    tokenizer = empty_tokenizer(family)
    n_added = len(family.special) + len(family.plain)
    trainer = BpeTrainer(
        vocab_size=n_vocab - n_added,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in family.special])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in family.plain])
    if tokenizer.get_vocab_size() != n_vocab:
        got = tokenizer.get_vocab_size()
        raise ValueError(f"tokenizer has {got} tokens, expected {n_vocab}: give it more text")
    return tokenizer


def empty_tokenizer(family: Family) -> Tokenizer:
    """The family's normaliser, pre-tokenizer and decoder around a BPE without merges."""
    tokenizer = Tokenizer(models.BPE())
    if family.nfc:
        tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(family.pre_tokenizer), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def rendered_samples(family: Family, corpus: Corpus, template: str, seed: int) -> list[str]:
    """Rendered conversations with the added tokens taken out, as text for the tokenizer."""
    rng = random.Random(f"{seed}/tokenizer")
    topics = find_topics([*corpus.books, *corpus.stories])
    renderer = Renderer(family, template, None)
    cut = [list(passages(book, passage_lengths(rng))) for book in corpus.books]
    texts = []
    for _ in range(N_RENDERED):
        text = renderer.text(converse([rng.choice(rng.choice(cut))], topics, rng), rng)
        for token in (*family.special, *family.plain):
            text = text.replace(token, " ")
        texts.append(text)
    return texts
