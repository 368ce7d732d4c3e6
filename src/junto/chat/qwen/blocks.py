"""The assistant's turns in a rendered conversation, and what is put in their place.

Templates of the family write each message between <|im_start|> and <|im_end|>, and some refuse what
is harmless: a system message in the middle. Such a message is given to the template as an
assistant's, and its block is rewritten here. The edges of blocks are control tokens, which no
message can write, so blocks are found without doubt; text between two added tokens is encoded as
one stretch, so the ids are those of the same text from a template that allows it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from junto.chat.tokenizer import Tokenizer
from junto.errors import TextError

_MAX_ROLE = 16  # tokens of "assistant" and its newline, even where each letter is one
Edit = Callable[[list[int]], list[int]] | None
"""Ids between <|im_start|> and <|im_end|> to what is to stand there; None leaves them."""


@dataclass(frozen=True, slots=True)
class Markup:
    """Ids of the family's tokens; None for those that a vocabulary lacks."""

    start: int
    end: int
    think: int | None
    end_think: int | None
    tokenizer: Tokenizer

    @staticmethod
    def of(tokenizer: Tokenizer) -> "Markup":
        """The tokens of a vocabulary; TextError where it has no <|im_start|> or <|im_end|>."""
        start, end = tokenizer.added_id("<|im_start|>"), tokenizer.added_id("<|im_end|>")
        if start is None or end is None:
            raise TextError(
                "the vocabulary has no <|im_start|> or no <|im_end|>; Qwen's dialogue needs both"
            )
        think, end_think = tokenizer.added_id("<think>"), tokenizer.added_id("</think>")
        return Markup(start, end, think, end_think, tokenizer)

    def plain(self, text: str) -> list[int]:
        """Ids of a text in which nothing is a control token."""
        return self.tokenizer.encode(text, special=False)

    def blocks(self, ids: Sequence[int]) -> Iterator[tuple[int, int, str]]:
        """(first id, last id + 1, role) of what stands between the two tokens, block by block."""
        start = None
        for i, token in enumerate(ids):
            if token == self.start:
                start = i + 1
            elif token == self.end and start is not None:
                yield start, i, self._role(ids[start:i])
                start = None

    def _role(self, block: Sequence[int]) -> str:
        return self.tokenizer.decode(block[:_MAX_ROLE]).partition("\n")[0]

    def edited(self, ids: list[int], edits: Sequence[Edit]) -> list[int]:
        """The conversation with an edit for each assistant's message carried out.

        TextError where the template did not write one block for each of them.
        """
        if not any(edits):
            return ids
        blocks = [block for block in self.blocks(ids) if block[2] == "assistant"]
        if len(blocks) != len(edits):
            raise TextError(
                f"chat template: writes {len(blocks)} assistant turns where {len(edits)} were"
                " given, so a system message cannot be put between them"
            )
        pieces: list[int] = []
        done = 0
        for (first, last, _), edit in zip(blocks, edits, strict=True):
            if edit is not None:
                pieces += ids[done:first] + edit(ids[first:last])
                done = last
        return pieces + ids[done:]

    def system(self, content: str) -> Edit:
        """Write a system message instead."""
        return lambda _: self.plain(f"system\n{content}")

    def with_reasoning(self, reasoning: str) -> Edit:
        """Write reasoning, perhaps empty, before the answer, where the template left it out."""

        def edit(block: list[int]) -> list[int]:
            n = next((i for i, id in enumerate(block) if self.tokenizer.is_added(id)), len(block))
            if block[n : n + 1] == [self.think]:
                return block
            role, _, content = self.tokenizer.decode(block[:n]).partition("\n")
            return [*self.plain(f"{role}\n"), *self.thought(reasoning, content), *block[n:]]

        return edit

    def thought(self, reasoning: str, content: str) -> list[int]:
        """Ids of reasoning as the family writes it, with the beginning of an answer behind it."""
        assert self.think is not None, "only templates that write <think> come here"
        assert self.end_think is not None, "it comes with <think>"
        before = self.plain(f"\n{reasoning}\n")
        return [self.think, *before, self.end_think, *self.plain(f"\n\n{content}")]
