"""Reading a tokenizer.json and the files beside it that say how it is used.

The library builds the steps before merging from the file's own description; added tokens are taken
out of it and kept apart, as for GGUF. Knows GGUF not at all.

Source: the serialised form of the `tokenizers` library; tokenizer_config.json,
generation_config.json and chat_template.jinja of Hugging Face model folders.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import tokenizers

from junto.chat.merging import merging_model
from junto.chat.pretokenizers import known_rule
from junto.chat.tokenizer import Tokenizer
from junto.chat.vocabulary import TokenKind, Vocabulary, check_id
from junto.chat.words import WordEncoder
from junto.errors import TextError


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():  # reading a pipe would wait for a writer
        raise TextError(f"{path}: not a regular file")
    try:
        # Reading it as text would look for line ends in all of it: a tenth of a second.
        parsed = json.loads(path.read_bytes().decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TextError(f"{path}: not valid JSON ({error!s:.120}); fetch the file again") from error
    if not isinstance(parsed, dict):
        raise TextError(f"{path}: expected a JSON object, got {type(parsed).__name__}")
    return parsed


def _json_beside(path: Path, name: str) -> dict[str, Any]:
    beside = path.with_name(name)
    return _json(beside) if beside.is_file() else {}


def _holds(step: object, kind: str) -> bool:
    """Whether a step, or a sequence of steps, holds one of that type."""
    if not isinstance(step, dict):
        return False
    inner = [step.get(key) for key in ("pretokenizers", "decoders", "processors")]
    parts = [part for parts in inner if isinstance(parts, list) for part in parts]
    return step.get("type") == kind or any(_holds(part, kind) for part in parts)


def _check_kind(parsed: dict[str, Any], path: Path) -> dict[str, Any]:
    """The model part; TextError unless it is byte-level BPE without word affixes."""
    model = parsed.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        kind = model.get("type") if isinstance(model, dict) else None
        raise TextError(f"{path}: model type is {kind!r:.40}; this build reads 'BPE'")
    if not _holds(parsed.get("pre_tokenizer"), "ByteLevel"):
        raise TextError(f"{path}: pre_tokenizer is not byte-level; this build reads byte-level BPE")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "dropout"):
        if model.get(key):
            raise TextError(f"{path}: model sets {key!r} to {model[key]!r:.40}; expected it unset")
    return model


def _merges(merges: list[Any]) -> list[tuple[str, str]]:
    """Pairs, written as lists or as texts with a blank between; ValueError where one is neither."""
    if str in set(map(type, merges)):
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    pairs = list(map(tuple, merges))
    if not set(map(len, pairs)) <= {2} or not set(map(type, chain.from_iterable(pairs))) <= {str}:
        raise ValueError("a merge is not two texts")
    return pairs


def _vocabulary(parsed: dict[str, Any], model: dict[str, Any], path: Path) -> Vocabulary:
    try:
        ids = dict(model["vocab"])
        added = {str(entry["content"]): entry for entry in parsed.get("added_tokens") or []}
        ids.update((content, entry["id"]) for content, entry in added.items())
        merges = _merges(model["merges"])
        n_vocab = max(ids.values()) + 1
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TextError(f"{path}: vocabulary or merges are not in the expected form") from error
    # A hole between ids is fine, a gigantic one is an attack on memory.
    if n_vocab > 2 * len(ids) + 65_536:
        raise TextError(f"{path}: highest id is {n_vocab - 1} with only {len(ids)} tokens")
    if set(map(type, ids.values())) != {int} or min(ids.values()) < 0:
        for token, i in ids.items():
            check_id(i, n_vocab, f"{path}: id of token {token!r:.40}")
    tokens = [""] * n_vocab
    kinds: dict[int, TokenKind] = {}
    for token, i in ids.items():
        tokens[i] = token
    if len(ids) < n_vocab:
        kinds = {i: TokenKind.UNUSED for i, token in enumerate(tokens) if not token}
    for entry in added.values():
        kind = TokenKind.CONTROL if entry.get("special") else TokenKind.USER_DEFINED
        kinds[entry["id"]] = kind
    return Vocabulary(tokens, kinds, merges, None, None, frozenset(), str(path))


def _encoder(file: "TokenizerFile", path: Path) -> WordEncoder:
    parsed, vocabulary = file.parsed, file.vocabulary
    skeleton = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": parsed.get("normalizer"),
        "pre_tokenizer": parsed["pre_tokenizer"],
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }
    try:
        words = tokenizers.Tokenizer.from_str(json.dumps(skeleton))
    except Exception as error:  # the library raises nothing narrower
        raise TextError(f"{path}: {error!s:.160}") from error
    merging = merging_model(vocabulary, whole_words=file.whole_words)
    if merging.n_idle:
        raise TextError(
            f"{path}: {merging.n_idle} merges name tokens that are not in the vocabulary; the file "
            "is broken"
        )
    words.model = merging.model
    rule = known_rule(parsed["pre_tokenizer"], parsed.get("normalizer"))
    known = rule if merging.knows_all_bytes else None
    return WordEncoder(words, known, n_longest=max(map(len, vocabulary.tokens)))


def _token_id(value: object, vocabulary: Vocabulary) -> int | None:
    """Id of a token given by its text or as {"content": text}."""
    text = value.get("content") if isinstance(value, dict) else value
    return next((i for i in vocabulary.kinds if vocabulary.tokens[i] == text), None)


def _template(path: Path, config: dict[str, Any]) -> str | None:
    beside = path.with_name("chat_template.jinja")
    if beside.is_file():
        return beside.read_text("utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry for entry in template if isinstance(entry, dict)}
        template = named.get("default", {}).get("template")
    return template if isinstance(template, str) else None


def _begins_with_token(post_processor: object) -> bool:
    """Whether the file's template for one text begins with a special token."""
    if not isinstance(post_processor, dict):
        return False
    steps = [post_processor, *(post_processor.get("processors") or [])]
    singles = [step.get("single") or [{}] for step in steps if isinstance(step, dict)]
    return any("SpecialToken" in single[0] for single in singles)


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """A tokenizer.json and what the files beside it add.

    parsed      the file itself, for its rules of cutting words
    pad_id      the token that fills up batches
    """

    parsed: Mapping[str, Any]
    vocabulary: Vocabulary
    pad_id: int | None
    add_bos: bool
    chat_template: str | None

    @property
    def whole_words(self) -> bool:
        """Whether a word that is a token is taken as it stands."""
        return bool(self.parsed["model"].get("ignore_merges"))


def read_tokenizer_json(path: Path) -> Tokenizer:
    """The tokenizer of a folder's tokenizer.json; see `Tokenizer.from_file`."""
    file = read_tokenizer_file(path)
    return Tokenizer(
        file.vocabulary,
        _encoder(file, path),
        add_bos=file.add_bos,
        chat_template=file.chat_template,
    )


def read_tokenizer_file(path: Path) -> TokenizerFile:
    """Read a tokenizer.json without building what encodes; TextError where it is broken."""
    parsed = _json(path)
    bare = _vocabulary(parsed, _check_kind(parsed, path), path)
    config = _json_beside(path, "tokenizer_config.json")
    ends = _json_beside(path, "generation_config.json").get("eos_token_id", [])
    end_ids = {
        check_id(i, len(bare.tokens), f"{path.with_name('generation_config.json')}: eos_token_id")
        for i in (ends if isinstance(ends, list) else [ends])
    }
    eos_id = _token_id(config.get("eos_token"), bare)
    vocabulary = replace(
        bare,
        bos_id=_token_id(config.get("bos_token"), bare),
        eos_id=eos_id,
        end_ids=frozenset(end_ids | ({eos_id} if eos_id is not None else set())),
    )
    begins = _begins_with_token(parsed.get("post_processor"))
    return TokenizerFile(
        parsed,
        vocabulary,
        pad_id=_token_id(config.get("pad_token"), bare),
        add_bos=bool(config.get("add_bos_token", begins)),
        chat_template=_template(path, config),
    )
