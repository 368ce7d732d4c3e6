"""Text to token ids and back, for byte-level BPE vocabularies.

Added tokens (control and user-defined) are not part of the merging vocabulary at all: they are cut
out of the text here, and only when asked. So plain text cannot become one, whatever it holds; that
does not rest on a flag of a library. Knows no model and no chat.
"""

import gc
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from junto.chat.merging import Merging, merging_model
from junto.chat.pretokenizers import WORD_RULES, WordRule
from junto.chat.vocabulary import (
    BYTE_OF_LETTER,
    PREFIX,
    TokenKind,
    Vocabulary,
    read_vocabulary,
)
from junto.chat.words import WordEncoder
from junto.errors import TextError

# Names of tokens that end an answer in the families read here. <|end|> ends a message in gpt-oss,
# not the answer, and is left out.
END_NAMES = frozenset(
    {
        "<|im_end|>",
        "<|endoftext|>",
        "<|return|>",
        "<|call|>",
        "<|end_of_text|>",
        "<|eot_id|>",
        "<|eom_id|>",
    }
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def _letters_to_bytes(letters: str) -> bytes:
    try:
        return bytes(map(BYTE_OF_LETTER.__getitem__, letters))
    except KeyError:
        return letters.encode("utf-8", "replace")


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep Python's collector from walking through a vocabulary again and again while it grows."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Tokenizer:
    """A vocabulary that encodes and decodes; immutable."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        words: WordEncoder,
        *,
        add_bos: bool = False,
        chat_template: str | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        """Take the encoder of words, which knows no added token; see the two `from_` methods."""
        # The encoder has the merges now; half a million pairs of texts fill tens of megabytes.
        self._vocabulary = replace(vocabulary, merges=())
        self._words = words
        added = (TokenKind.CONTROL, TokenKind.USER_DEFINED)
        self._added_ids = {
            vocabulary.tokens[i]: i
            for i, kind in vocabulary.kinds.items()
            if kind in added and vocabulary.tokens[i]
        }
        self.n_vocab = len(vocabulary.tokens)
        self.bos_id = vocabulary.bos_id
        self.eos_id = vocabulary.eos_id
        family_ends = {self._added_ids[name] for name in END_NAMES if name in self._added_ids}
        self.eos_ids: frozenset[int] = vocabulary.end_ids | family_ends
        self.add_bos = add_bos and self.bos_id is not None
        self.chat_template = chat_template
        self.notes = tuple(notes)

    @staticmethod
    def from_gguf(metadata: Mapping[str, Any], source: str) -> "Tokenizer":
        """The tokenizer of a GGUF file's metadata; `source` is the file name, for messages.

        TextError where the vocabulary is of a kind that is not read here, or broken.
        """
        model = metadata.get(PREFIX + "model")
        if model != "gpt2":
            raise TextError(
                f"{source}: '{PREFIX}model' is {model!r:.40}; this build reads 'gpt2'"
                " (byte-level BPE)"
            )
        name = metadata.get(PREFIX + "pre", "default")
        if not isinstance(name, str) or name not in WORD_RULES:
            raise TextError(
                f"{source}: '{PREFIX}pre' is {name!r:.40}; this build reads:"
                f" {', '.join(sorted(WORD_RULES))}"
            )
        rule = WORD_RULES[name]
        with _collector_paused():
            vocabulary = _name_reserved(read_vocabulary(metadata, source))
            merging = merging_model(vocabulary, whole_words=rule.whole_words)
        notes = []
        if PREFIX + "pre" not in metadata:
            notes.append(f"{source}: no '{PREFIX}pre'; words are cut as GPT-2 does")
        if merging.n_idle:
            notes.append(f"{source}: {merging.n_idle} merges name no tokens and are left out")
        template = metadata.get("tokenizer.chat_template")
        return Tokenizer(
            vocabulary,
            _encoder(vocabulary, merging, rule),
            add_bos=bool(metadata.get(PREFIX + "add_bos_token", rule.add_bos)),
            chat_template=template if isinstance(template, str) else None,
            notes=notes,
        )

    @staticmethod
    def from_file(path: str | Path) -> "Tokenizer":
        """The tokenizer of a tokenizer.json and of the files beside it that belong to it.

        TextError where the file is of a kind that is not read here, or broken; OSError where it
        cannot be opened.
        """
        from junto.chat.tokenizer_json import read_tokenizer_json

        with _collector_paused():
            return read_tokenizer_json(Path(path))

    def padded(self, n_vocab: int) -> "Tokenizer":
        """The same for a model with an embedding of `n_vocab` rows: ids without a token are unused.

        TextError where there are more tokens than rows.
        """
        if n_vocab < self.n_vocab:
            raise TextError(
                f"{self._vocabulary.source}: {self.n_vocab} tokens for an embedding of {n_vocab} "
                "rows, expected at most as many; the tokenizer belongs to another model"
            )
        if n_vocab == self.n_vocab:
            return self
        tokens = [*self._vocabulary.tokens, *[""] * (n_vocab - self.n_vocab)]
        unused = dict.fromkeys(range(self.n_vocab, n_vocab), TokenKind.UNUSED)
        return Tokenizer(
            replace(self._vocabulary, tokens=tokens, kinds={**self._vocabulary.kinds, **unused}),
            self._words,
            add_bos=self.add_bos,
            chat_template=self.chat_template,
            notes=self.notes,
        )

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Ids of a text.

        special   True: added tokens that the text spells become their ids (for text that a template
                  wrote). False: the text is plain; no added token comes out, whatever it spells.

        Lone surrogates count as U+FFFD. No bos token is put before; see `add_bos`.
        """
        text = _SURROGATE.sub("\ufffd", text)
        if not special:
            return self._encode_plain(text)
        ids: list[int] = []
        for is_added, piece in self.split_added(text):
            ids += [self._added_ids[piece]] if is_added else self._encode_plain(piece)
        return ids

    def split_added(self, text: str) -> Iterator[tuple[bool, str]]:
        """Cut a text into (is an added token, piece); the pieces joined are the text."""
        end = 0
        for found in self._added_pattern.finditer(text):
            yield False, text[end : found.start()]
            yield True, found[0]
            end = found.end()
        yield False, text[end:]

    def _encode_plain(self, text: str) -> list[int]:
        return self._words.encode(text)

    @cached_property
    def _added_pattern(self) -> re.Pattern[str]:
        """Matches any added token, the longest where several begin; nothing if there is none."""
        if not self._added_ids:
            return re.compile(r"(?!)")
        longest_first = sorted(self._added_ids, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)))

    @property
    def added_texts(self) -> Iterable[str]:
        """The texts of all added tokens."""
        return self._added_ids.keys()

    def added_id(self, text: str) -> int | None:
        """Id of the added token spelled so, or None."""
        return self._added_ids.get(text)

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text of ids; invalid bytes become U+FFFD. Control tokens show only if `special`."""
        joined = b"".join(self.token_bytes(i, special=special) for i in ids)
        return joined.decode("utf-8", "replace")

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """Bytes of one token, which may be part of a character.

        Control tokens have none unless `special`; unused ids have none. TextError where the id
        lies outside the vocabulary.
        """
        text = self.token_text(token_id)
        match self.kind(token_id):
            case TokenKind.CONTROL:
                return text.encode("utf-8", "replace") if special else b""
            case TokenKind.USER_DEFINED:
                return text.encode("utf-8", "replace")
            case TokenKind.UNUSED | TokenKind.UNKNOWN:
                return b""
            case TokenKind.BYTE if re.fullmatch("<0x[0-9A-Fa-f]{2}>", text):
                return bytes.fromhex(text[3:5])
            case _:
                return _letters_to_bytes(text)

    def token_text(self, token_id: int) -> str:
        """A token as the vocabulary spells it; TextError where the id lies outside it."""
        if not 0 <= token_id < self.n_vocab:
            raise TextError(
                f"{self._vocabulary.source}: token id {token_id}, expected 0 to {self.n_vocab - 1}"
            )
        return self._vocabulary.tokens[token_id]

    def kind(self, token_id: int) -> TokenKind:
        """What a token is for."""
        return self._vocabulary.kinds.get(token_id, TokenKind.NORMAL)

    def is_control(self, token_id: int) -> bool:
        """Whether the token is markup that text never shows."""
        return self.kind(token_id) is TokenKind.CONTROL

    def is_added(self, token_id: int) -> bool:
        """Whether the token is parsed from text only when asked."""
        return self.kind(token_id) in (TokenKind.CONTROL, TokenKind.USER_DEFINED)


def _name_reserved(vocabulary: Vocabulary) -> Vocabulary:
    """Give the padding of a Harmony vocabulary the names that its encoding reserves.

    GGUF files call the ids after <|endofprompt|> padding; o200k_harmony names every one of them.
    """
    tokens = list(vocabulary.tokens)
    if not {"<|channel|>", "<|return|>", "<|reserved_200013|>"} <= set(tokens[200_000:200_020]):
        return vocabulary
    kinds = dict(vocabulary.kinds)
    for i in range(200_019, len(tokens)):
        if kinds.get(i) is TokenKind.UNUSED:
            tokens[i], kinds[i] = f"<|reserved_{i}|>", TokenKind.CONTROL
    return replace(vocabulary, tokens=tokens, kinds=kinds)


def _encoder(vocabulary: Vocabulary, merging: Merging, rule: WordRule) -> WordEncoder:
    words = tokenizers.Tokenizer(merging.model)
    words.pre_tokenizer = rule.pre_tokenizer()
    if normalizer := rule.normalizer():
        words.normalizer = normalizer
    known = rule if merging.knows_all_bytes else None
    return WordEncoder(words, known, n_longest=max(map(len, vocabulary.tokens)))
