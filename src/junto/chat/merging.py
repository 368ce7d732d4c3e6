"""The merging of words into tokens, with nothing in it that plain text must not become.

Built on the BPE of the `tokenizers` library from a vocabulary that may be broken or hostile. Knows
neither how text is cut into words nor control tokens' meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import models

from junto.chat.vocabulary import BYTE_OF_LETTER, TokenKind, Vocabulary


@dataclass(frozen=True, slots=True)
class Merging:
    """The library's model, and what was found on the way.

    n_idle           merges that name what is no token and were left out
    knows_all_bytes  every letter of the byte-level alphabet is a token, so no text is lost
    """

    model: models.BPE
    n_idle: int
    knows_all_bytes: bool


def merging_model(vocabulary: Vocabulary, *, whole_words: bool) -> Merging:
    """The merging of words alone: no added token can come out of it.

    A merge that would make or take a control token is left out, and so is one that names what is
    no token; a user-defined token that merges also make stays an ordinary word too.
    """
    word_kinds = (TokenKind.NORMAL, TokenKind.UNDEFINED, TokenKind.BYTE)
    ids = dict(zip(vocabulary.tokens, range(len(vocabulary.tokens)), strict=True))
    for i, kind in vocabulary.kinds.items():
        if kind not in word_kinds:
            ids.pop(vocabulary.tokens[i], None)
    merges = list(vocabulary.merges)
    # The library checks the parts of a merge, but panics where their product is no token.
    if all(map(ids.__contains__, map("".join, merges))):
        try:
            return Merging(models.BPE(ids, merges, ignore_merges=whole_words), 0, _has_bytes(ids))
        except Exception:  # the library raises nothing narrower; what is wrong is mended below
            pass
    ids, merges = _without_control(vocabulary, ids)
    known = [(a, b) for a, b in merges if a in ids and b in ids and a + b in ids]
    model = models.BPE(ids, known, ignore_merges=whole_words)
    return Merging(model, len(merges) - len(known), _has_bytes(ids))


def _has_bytes(ids: Mapping[str, int]) -> bool:
    return BYTE_OF_LETTER.keys() <= ids.keys()


def _without_control(
    vocabulary: Vocabulary, ids: dict[str, int]
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Words and merges without control tokens, and with the user-defined ones that merges make."""
    by_kind: dict[TokenKind, dict[str, int]] = {kind: {} for kind in TokenKind}
    for i, kind in vocabulary.kinds.items():
        by_kind[kind][vocabulary.tokens[i]] = i
    control = by_kind[TokenKind.CONTROL].keys() - ids.keys()
    merges = [
        (left, right)
        for left, right in vocabulary.merges
        if not {left, right, left + right} & control
    ]
    made = {left + right for left, right in merges}
    user_defined = by_kind[TokenKind.USER_DEFINED]
    return {token: i for token, i in user_defined.items() if token in made} | ids, merges
