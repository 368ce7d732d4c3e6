"""A vocabulary as plain, checked data, and its reading from GGUF metadata.

Metadata are hostile until proved otherwise: every list is measured against the others and every id
against the list before anything is built from them. Knows neither word rules nor merging.

Source: the GGUF specification, section on `tokenizer.ggml.*`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from junto.errors import TextError

PREFIX = "tokenizer.ggml."


def _byte_letters() -> dict[str, int]:
    """The byte-level alphabet: letter -> byte. Source: GPT-2's encoder."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in set(printable)]
    shifted = {chr(0x100 + index): byte for index, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


BYTE_OF_LETTER: Mapping[str, int] = MappingProxyType(_byte_letters())


class TokenKind(IntEnum):
    """What a token is for; the numbers are those of `tokenizer.ggml.token_type`."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id and the pairs that merge, in order of rank.

    tokens   [n_vocab]      text in the byte-level alphabet; added tokens as people write them
    kinds    id -> kind     only for ids whose kind is not NORMAL
    merges   [n_merge]      pairs of token texts
    end_ids  tokens that end an answer, as the file says
    """

    tokens: Sequence[str]
    kinds: Mapping[int, TokenKind]
    merges: Sequence[tuple[str, str]]
    bos_id: int | None
    eos_id: int | None
    end_ids: frozenset[int]
    source: str


def _list(metadata: Mapping[str, Any], key: str, source: str) -> Sequence[Any]:
    value = metadata.get(PREFIX + key)
    if value is None:
        raise TextError(f"{source}: no '{PREFIX}{key}'; the file holds no vocabulary to read text")
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise TextError(f"{source}: '{PREFIX}{key}' is not a list")
    values: Sequence[Any] = value
    return values


def _strings(metadata: Mapping[str, Any], key: str, source: str) -> list[str]:
    values = list(_list(metadata, key, source))
    others = set(map(type, values)) - {str}
    if others:
        raise TextError(f"{source}: '{PREFIX}{key}' must hold strings, got {min(map(str, others))}")
    return values


def _kinds(metadata: Mapping[str, Any], n_vocab: int, source: str) -> dict[int, TokenKind]:
    if PREFIX + "token_type" not in metadata:
        return {}
    try:
        values = _numbers(_list(metadata, "token_type", source))
    except (TypeError, ValueError, OverflowError) as error:
        raise TextError(f"{source}: '{PREFIX}token_type' must hold numbers") from error
    if len(values) != n_vocab:
        raise TextError(
            f"{source}: '{PREFIX}token_type' has {len(values)} entries, expected {n_vocab},"
            f" one for each of '{PREFIX}tokens'"
        )
    strange = values[(values < 0) | (values > max(TokenKind))]
    if strange.size:
        raise TextError(f"{source}: '{PREFIX}token_type' holds {strange.min()}, expected 0 to 6")
    others = np.flatnonzero(values != TokenKind.NORMAL)
    return {int(i): TokenKind(values[i]) for i in others}


def _numbers(values: Any) -> npt.NDArray[np.int64]:
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.int64)
    return np.array(list(map(int, values)), np.int64)


def _merges(metadata: Mapping[str, Any], source: str) -> list[tuple[str, str]]:
    if PREFIX + "merges" not in metadata:
        return []
    merges = _strings(metadata, "merges", source)
    pairs = [tuple(merge.split(" ")) for merge in merges]
    if pairs and set(map(len, pairs)) != {2}:
        wrong = next(index for index, pair in enumerate(pairs) if len(pair) != 2)
        raise TextError(
            f"{source}: '{PREFIX}merges' entry {wrong} is {merges[wrong]!r:.80},"
            " expected two tokens with one blank between"
        )
    return cast("list[tuple[str, str]]", pairs)


def check_id(value: object, n_vocab: int, where: str) -> int:
    """The id itself; TextError where it is no id of a vocabulary of `n_vocab` tokens."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < n_vocab:
        raise TextError(f"{where} is {value!r:.40}, expected 0 to {n_vocab - 1}")
    return value


def _ids(metadata: Mapping[str, Any], n_vocab: int, source: str) -> dict[str, int]:
    """Every `tokenizer.ggml.<name>_token_id` -> id, by its name."""
    found = {}
    for key, value in metadata.items():
        if key.startswith(PREFIX) and key.endswith("_token_id"):
            name = key.removeprefix(PREFIX).removesuffix("_token_id")
            found[name] = check_id(value, n_vocab, f"{source}: '{key}'")
    return found


def read_vocabulary(metadata: Mapping[str, Any], source: str) -> Vocabulary:
    """The vocabulary of a GGUF file.

    metadata  key -> value; lists of strings are sequences of str, lists of numbers may be arrays
    source    file name, for messages

    TextError where a list is missing, of the wrong type or length, an id lies outside the
    vocabulary, or a merge is not two tokens with one blank between.
    """
    tokens = _strings(metadata, "tokens", source)
    if not tokens:
        raise TextError(f"{source}: '{PREFIX}tokens' is empty")
    kinds = _kinds(metadata, len(tokens), source)
    merges = _merges(metadata, source)
    ids = _ids(metadata, len(tokens), source)
    ends = {ids[name] for name in ("eos", "eot", "eom") if name in ids}
    return Vocabulary(
        tokens, kinds, merges, ids.get("bos"), ids.get("eos"), frozenset(ends), source
    )
