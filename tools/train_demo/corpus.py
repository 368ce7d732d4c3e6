"""The text the models learn from, cut into passages, and the text held out from them.

Knows the layout of the two files and nothing of tokens or dialogues. The split is fixed: the book
at `HELD_OUT_BOOK` (Pinocchio) and every tenth story never reach training, the tokenizer included.
"""

import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

BOOKS = "childrens_books.txt.xz"
STORIES = "tinystories_sample.txt"
HELD_OUT_BOOK = 16
HELD_OUT_STORY_PERIOD = 10

BOOK_SEPARATOR = "<|endoftext|>"
STORY_START = re.compile(r"\n\n(?=Once upon a time|Once there |Once, |There once |There was once )")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z])")

MIN_PROSE = 0.72
"""The least share of lower-case letters in prose; less is a table of contents or a note."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of text that ends with a sentence; `is_story` if it is one whole story."""

    text: str
    is_story: bool


@dataclass(frozen=True, slots=True)
class Corpus:
    """The texts in file order: whole books, whole stories."""

    books: list[str]
    stories: list[str]
    held_out_book: str
    held_out_stories: list[str]

    @property
    def training_text(self) -> str:
        """All text of the training half, as one string."""
        return "\n\n".join([*self.books, *self.stories])

    @property
    def held_out(self) -> list[str]:
        """The texts kept from training: the book, then the stories as one text."""
        return [self.held_out_book, "\n\n".join(self.held_out_stories)]


def read_corpus(folder: Path) -> Corpus:
    """The corpus in a folder that holds `BOOKS` and `STORIES`; OSError if one is missing."""
    with lzma.open(folder / BOOKS, "rt", encoding="utf-8") as file:
        books = [prose(book) for book in file.read().split(BOOK_SEPARATOR)]
    stories = STORY_START.split((folder / STORIES).read_text(encoding="utf-8").strip())
    stories = [story.strip() for story in stories[1:]]
    period = HELD_OUT_STORY_PERIOD
    return Corpus(
        books=[book for index, book in enumerate(books) if index != HELD_OUT_BOOK],
        stories=[story for index, story in enumerate(stories) if index % period != period - 1],
        held_out_book=books[HELD_OUT_BOOK],
        held_out_stories=stories[period - 1 :: period],
    )


def prose(text: str) -> str:
    """The paragraphs of a text that are running text."""
    paragraphs = (paragraph.strip() for paragraph in text.split("\n\n"))
    return "\n\n".join(paragraph for paragraph in paragraphs if is_prose(paragraph))


def is_prose(paragraph: str) -> bool:
    """Whether a paragraph is mostly lower-case letters."""
    n_lower = sum(map(str.islower, paragraph))
    return n_lower >= MIN_PROSE * len(paragraph.replace(" ", "")) and len(paragraph) > 1


def sentences(text: str) -> list[str]:
    """The text cut after each sentence; joined with nothing between they give the text again."""
    cuts = [0, *(found.end() for found in SENTENCE_END.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts)]


def passages(text: str, lengths: Iterator[int]) -> Iterator[Passage]:
    """Cut a text into passages of whole sentences, each at least as long as the next length says.

    `lengths` are characters. Nothing is lost but the white space between passages.
    """
    held: list[str] = []
    wanted = next(lengths)
    for sentence in sentences(text):
        held.append(sentence)
        if sum(map(len, held)) >= wanted:
            yield Passage("".join(held).strip(), is_story=False)
            held, wanted = [], next(lengths)
    if held:
        yield Passage("".join(held).strip(), is_story=False)
