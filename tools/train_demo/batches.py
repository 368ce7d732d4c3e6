"""The endless, deterministic stream of training rows.

Each epoch cuts every text anew, makes plain texts and conversations of the passages, shuffles them
and packs them into rows of equal length. Epoch e of seed s is always the same. Knows no model.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tools.train_demo.corpus import Corpus, Passage, passages
from tools.train_demo.dialogue import converse
from tools.train_demo.render import Document, Renderer
from tools.train_demo.topics import Topics

Rows = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float32]

SHARE_PLAIN = 0.35
MIN_PASSAGE, MAX_PASSAGE = 250, 650
"""Characters of a passage before it ends with its sentence: about 65 to 180 tokens."""

MAX_STORY = 1300
STORY_COPIES = 3
"""Stories are a twelfth of the text and all that a request for a story can be answered with."""

SHARE_SECOND_TURN = 0.35

REACH = 96
"""How many waiting documents are looked through for the one that fits best."""

CLOSE = 24
"""Tokens that may be left open in a row, or left out at the end of a plain text."""

FILL_BELOW = 320
"""Tokens left in a row below which the best fit is looked for; above, order decides."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Rows of tokens [n_row, n_ctx + 1] and the weight of predicting each token, same shape."""

    ids: Rows
    weights: Weights


def make_epoch(
    corpus: Corpus, topics: Topics, renderer: Renderer, n_ctx: int, seed: int, epoch: int
) -> Epoch:
    """Rows of one pass over the corpus; what does not fill the last row is left out."""
    rng = random.Random(f"{seed}/{epoch}")
    documents = list(_documents(corpus, topics, renderer, rng))
    rng.shuffle(documents)
    return pack(documents, n_ctx)


def _documents(
    corpus: Corpus, topics: Topics, renderer: Renderer, rng: random.Random
) -> Iterator[Document]:
    for text in corpus.books:
        yield from _of_passages(list(passages(text, passage_lengths(rng))), topics, renderer, rng)
    stories = [Passage(story, is_story=True) for story in corpus.stories * STORY_COPIES]
    rng.shuffle(stories)
    short = [story for story in stories if len(story.text) <= MAX_STORY]
    long = [story.text for story in stories if len(story.text) > MAX_STORY]
    yield from _of_passages(short, topics, renderer, rng)
    for text in long:
        yield renderer.plain(text)


def passage_lengths(rng: random.Random) -> Iterator[int]:
    """Characters that each next passage should have at least, without end."""
    while True:
        yield rng.randint(MIN_PASSAGE, MAX_PASSAGE)


def _of_passages(
    found: list[Passage], topics: Topics, renderer: Renderer, rng: random.Random
) -> Iterator[Document]:
    position = 0
    while position < len(found):
        if rng.random() < SHARE_PLAIN:
            run = found[position : position + rng.choice((1, 2, 3))]
            yield renderer.plain("\n\n".join(passage.text for passage in run))
        else:
            run = found[position : position + (2 if rng.random() < SHARE_SECOND_TURN else 1)]
            yield renderer.document(converse(run, topics, rng), rng)
        position += len(run)


def pack(documents: list[Document], n_ctx: int) -> Epoch:
    """Rows of n_ctx + 1 tokens, each starting with a document and filled with those that fit best.

    Where none fits, a plain text fills the row and goes on in a later one. So conversations are
    seen whole and from their start, as they will be in use, and hardly anything is left out.
    """
    waiting, rows = list(reversed(documents)), []
    while waiting:
        row, room = [], n_ctx + 1
        while room and waiting:
            row.append(_take(waiting, room))
            room -= len(row[-1].ids)
        if not room:
            rows.append(row)
    ids = np.asarray([[token for d in row for token in d.ids] for row in rows], np.int32)
    weights = np.asarray(
        [[weight for d in row for weight in d.weights] for row in rows], np.float32
    )
    return Epoch(ids, weights)


def _take(waiting: list[Document], room: int) -> Document:
    """Take the next document, or the one within reach that fills the room best, cut to fit."""
    if room >= FILL_BELOW and len(waiting[-1].ids) <= room:
        return waiting.pop()
    near = [(-back, document) for back, document in enumerate(reversed(waiting[-REACH:]), start=1)]
    fitting = [(len(d.ids), index) for index, d in near if len(d.ids) <= room]
    plain = [index for index, d in near if d.is_plain]
    if fitting and (room - max(fitting)[0] < CLOSE or not plain):
        return waiting.pop(max(fitting)[1])
    index = plain[0] if plain else -1
    taken = waiting[index]
    if len(taken.ids) - room > CLOSE:
        waiting[index] = Document(taken.ids[room:], taken.weights[room:], taken.is_plain)
    else:
        waiting.pop(index)
    return Document(taken.ids[:room], taken.weights[:room])
