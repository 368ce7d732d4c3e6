"""A folder's tokenizer as GGUF metadata.

It knows the files of a tokenizer and the keys of a vocabulary, and no model. Ids that have no token
are padded to the rows of the embedding, as GGUF readers want as many.

Source: the GGUF specification, section on `tokenizer.ggml.*`.
"""

from pathlib import Path

import numpy as np

from junto.chat.pretokenizers import gguf_name
from junto.chat.tokenizer import END_NAMES, Tokenizer
from junto.chat.tokenizer_json import TokenizerFile, read_tokenizer_file
from junto.chat.vocabulary import PREFIX, TokenKind, Vocabulary
from junto.errors import TextError
from junto.formats.gguf_encoding import OutValue

PROBE = (
    "Der Weg war 12345 m lang; it's 3.14159!\r\n\r\n  def f(x):\n\treturn x\u00b2  # \u00e9t\u00e9 "
    "e\u0301 \u4f60\u597d\u4e16\u754c \u0928\u092e\u0938\u094d\u0924\u0947 \u0645\u0631\u062d\u0628"
    "\u0627 HTTPServer iPhone's \U0001f44d\U0001f3fd   ...   ==> //path/to"
)
"""Text that vocabularies cut in different ways: digits, marks, cases, blanks, signs."""


def tokenizer_keys(folder: Path, n_vocab: int) -> dict[str, OutValue]:
    """Give the metadata of a folder's tokenizer; nothing where it has none.

    n_vocab   rows of the embedding

    TextError if the tokenizer is broken, has more tokens than rows, or cuts words in a way that
    GGUF has no name for here.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return {}
    file = read_tokenizer_file(path)
    tokens, kinds = _padded(file.vocabulary, n_vocab)
    keys: dict[str, OutValue] = {
        PREFIX + "model": "gpt2",
        PREFIX + "pre": _pre(file, path),
        PREFIX + "tokens": tokens,
        PREFIX + "token_type": kinds,
        **_merges(file.vocabulary),
        **_ids(file),
        PREFIX + "add_bos_token": file.add_bos,
    }
    if file.chat_template is not None:
        keys["tokenizer.chat_template"] = file.chat_template
    _check(keys, path)
    return keys


def _padded(vocabulary: Vocabulary, n_vocab: int) -> tuple[list[str], "np.ndarray"]:
    tokens = list(vocabulary.tokens)
    if len(tokens) > n_vocab:
        raise TextError(
            f"{vocabulary.source}: {len(tokens)} tokens for an embedding of {n_vocab} rows, "
            "expected at most as many; the tokenizer belongs to another model"
        )
    tokens += [""] * (n_vocab - len(tokens))
    kinds = np.full(n_vocab, TokenKind.NORMAL, np.int32)
    for i, kind in vocabulary.kinds.items():
        kinds[i] = kind
    for i, token in enumerate(tokens):
        if not token:
            tokens[i], kinds[i] = f"[PAD{i}]", TokenKind.UNUSED
    return tokens, kinds


def _merges(vocabulary: Vocabulary) -> dict[str, OutValue]:
    merges = [" ".join(pair) for pair in vocabulary.merges]
    return {PREFIX + "merges": merges} if merges else {}


def _pre(file: TokenizerFile, path: Path) -> str:
    steps = file.parsed["pre_tokenizer"], file.parsed.get("normalizer")
    name = gguf_name(*steps, whole_words=file.whole_words)
    if name is None:
        raise TextError(
            f"{path}: the way it cuts words has no name in GGUF that this build knows; see "
            "chat/pretokenizers.py"
        )
    return name


def _ids(file: TokenizerFile) -> dict[str, OutValue]:
    """Special ids; of further ends, those that readers cannot tell by name."""
    vocabulary = file.vocabulary
    named = {i for i in vocabulary.end_ids if vocabulary.tokens[i] in END_NAMES}
    others = sorted(vocabulary.end_ids - named - {vocabulary.eos_id})
    ids = {
        "bos": vocabulary.bos_id,
        "eos": vocabulary.eos_id,
        "eot": others[0] if others else None,
        "padding": file.pad_id,
    }
    return {f"{PREFIX}{name}_token_id": i for name, i in ids.items() if i is not None}


def _check(keys: dict[str, OutValue], path: Path) -> None:
    """Refuse to write a vocabulary that would be read as another."""
    written = Tokenizer.from_gguf(keys, path.name)
    ids = written.encode(PROBE, special=False)
    if ids != Tokenizer.from_file(path).encode(PROBE, special=False):
        raise TextError(
            f"{path}: as a GGUF's {keys[PREFIX + 'pre']!r} it would cut words in other places"
        )
