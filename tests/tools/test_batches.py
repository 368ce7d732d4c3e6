"""Rows are full, conversations whole, and nothing of the text is lost."""

import random

from tools.train_demo.batches import CLOSE, pack
from tools.train_demo.render import Document

N_CTX = 400


def documents(rng: random.Random) -> list[Document]:
    """Documents whose tokens are unique, a third of them plain text; conversations fit a row."""
    made, next_id = [], 0
    for _ in range(300):
        is_plain = rng.random() < 0.35
        n = rng.randint(60, 700 if is_plain else 380)
        made.append(Document(list(range(next_id, next_id + n)), [1.0] * n, is_plain))
        next_id += n
    return made


def test_rows_are_full_and_hold_each_token_at_most_once() -> None:
    made = documents(random.Random(1))
    rows = pack(made, N_CTX)
    assert rows.ids.shape[1] == N_CTX + 1
    assert rows.weights.shape == rows.ids.shape
    seen = rows.ids.flatten().tolist()
    assert len(set(seen)) == len(seen)
    n_all = sum(len(document.ids) for document in made)
    assert len(seen) > n_all - 300 * CLOSE / 4 - 3 * N_CTX


def test_nearly_all_conversations_are_whole_within_a_row() -> None:
    made = documents(random.Random(2))
    row_of = {int(t): r for r, row in enumerate(pack(made, N_CTX).ids) for t in row}
    talks = [document.ids for document in made if not document.is_plain]
    whole = [len({row_of.get(token) for token in ids}) == 1 for ids in talks]
    assert sum(whole) > 0.9 * len(whole)


def test_every_row_starts_with_a_start_or_goes_on_with_a_plain_text() -> None:
    made = documents(random.Random(3))
    starts = {document.ids[0] for document in made}
    plain = {token for document in made if document.is_plain for token in document.ids}
    assert all(int(row[0]) in starts | plain for row in pack(made, N_CTX).ids)


def test_the_same_documents_give_the_same_rows() -> None:
    first, again = (pack(documents(random.Random(4)), N_CTX) for _ in range(2))
    assert (first.ids == again.ids).all()
