"""A tiny vocabulary with harmony's control tokens, and answers spelled in it."""

from collections.abc import Iterable

import numpy as np

from junto.chat.events import Event
from junto.chat.harmony.markup import Mark
from junto.chat.harmony.parser import HarmonyParser
from junto.chat.tokenizer import Tokenizer
from tests.chat.vocabularies import byte_letters

OTHER_CONTROL = ("<|startoftext|>", "<|reserved_1|>")
USER_DEFINED = ("<think>", "</think>")
MARKS = tuple(mark.value for mark in Mark)


def harmony_tokenizer(without: str | None = None) -> Tokenizer:
    """256 bytes, the marks, two other control tokens and two user-defined ones."""
    control = [text for text in (*MARKS, *OTHER_CONTROL) if text != without]
    tokens = [*byte_letters(), *control, *USER_DEFINED]
    kinds = [1] * 256 + [3] * len(control) + [4] * len(USER_DEFINED)
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-4o",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(kinds, np.int32),
        "tokenizer.ggml.merges": [],
    }
    return Tokenizer.from_gguf(metadata, "tiny.gguf")


def control_counts(tokenizer: Tokenizer, ids: Iterable[int]) -> dict[str, int]:
    """How often each added token stands among the ids."""
    counts: dict[str, int] = {}
    for i in ids:
        if tokenizer.is_added(i):
            text = tokenizer.token_text(i)
            counts[text] = counts.get(text, 0) + 1
    return counts


def events_of(parser: HarmonyParser, ids: Iterable[int]) -> list[Event]:
    """All events of an answer that ends by itself."""
    events = [event for i in ids for event in parser.feed(i)]
    return events + parser.finish()
