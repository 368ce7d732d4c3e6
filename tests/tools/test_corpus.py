"""The training text is cut without loss, and what is held out stays out."""

import lzma
from itertools import repeat
from pathlib import Path

import pytest

from tools.train_demo.corpus import (
    BOOKS,
    HELD_OUT_BOOK,
    STORIES,
    is_prose,
    passages,
    read_corpus,
    sentences,
)

TEXT = 'The cat sat. "Did it?" asked Ann. It did!\n\nMr. Fox came, and ran off; he was late.'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    books = [f"this is the long and winding book number {i} of them all." for i in range(19)]
    with lzma.open(tmp_path / BOOKS, "wt") as file:
        file.write("<|endoftext|>".join(books))
    stories = [f"Once upon a time there was story {i}.\n\nIt ended well." for i in range(23)]
    (tmp_path / STORIES).write_text("The end of a story.\n\n" + "\n\n".join(stories))
    return tmp_path


def test_sentences_joined_give_the_text_again() -> None:
    assert "".join(sentences(TEXT)) == TEXT
    assert sentences(TEXT)[0] == "The cat sat. "
    assert len(sentences(TEXT)) > 3


def test_passages_lose_only_the_white_space_between_them() -> None:
    found = [passage.text for passage in passages(TEXT, repeat(30))]
    assert "".join(" ".join(found).split()) == "".join(TEXT.split())
    assert all(len(text) >= 30 for text in found[:-1])


def test_one_book_and_every_tenth_story_are_held_out(folder: Path) -> None:
    corpus = read_corpus(folder)
    assert f"number {HELD_OUT_BOOK} of" in corpus.held_out_book
    assert len(corpus.books) == 18
    assert corpus.held_out_book not in corpus.training_text
    assert [story.splitlines()[0][-3:-1] for story in corpus.held_out_stories] == [" 9", "19"]
    assert len(corpus.stories) == 21
    assert not set(corpus.stories) & set(corpus.held_out_stories)


def test_a_table_of_contents_is_no_prose() -> None:
    assert is_prose("Once there was a fox, and he was glad.")
    assert not is_prose("CHAPTER I\nCHAPTER II\nCHAPTER III Home")
    assert not is_prose("12, 13, 14, see 15.")
