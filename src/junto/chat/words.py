"""Plain text to ids: words are cut and merged by the library, at a cost in proportion to the text.

The ids are those of the library given the whole text at once. Long texts are encoded in pieces (see
`cuts`), and words that are too long to be cut are merged in windows. Knows no added tokens.

Why windows may be joined. Merging takes the pair of lowest rank, the leftmost first, until none is
left. Let t1 .. tn be tokens of which every two neighbours, merged by themselves, stay as they are.
Then merging the whole text gives t1 .. tn: the first merge to cross a border would be of two
neighbours in a state that depends on these two alone, and alone they do not cross. Conversely, all
neighbours in the result of a merging are of that kind. So two results can be joined as soon as the
two tokens at the joint stay apart.
"""

import tokenizers

from junto.chat.cuts import pieces
from junto.chat.pretokenizers import WordRule
from junto.chat.vocabulary import BYTE_OF_LETTER

_N_UNCUT = 1_024
_N_UNSURE = 4
_MAX_BACK = 4_096
_N_WORDS_AT_ONCE = 4_096
_LETTER_OF_BYTE = {byte: letter for letter, byte in BYTE_OF_LETTER.items()}


def _letters_of(word: str) -> str:
    """The word in the byte-level alphabet."""
    return word.encode("utf-8").decode("latin-1").translate(_LETTER_OF_BYTE)


class WordEncoder:
    """Encodes plain text; immutable."""

    def __init__(
        self,
        whole: tokenizers.Tokenizer,
        rule: WordRule | None,
        *,
        n_longest: int,
        n_piece: int = 16_384,
        n_window: int = 8_192,
    ) -> None:
        """Take the library's encoder of whole texts, with no added token in it.

        rule       how it cuts words; None where that is not known, or its model lacks some letter
                   of a byte: long texts are then encoded at once, at the library's cost
        n_longest  letters (bytes) of the longest token; windows must be much longer
        n_piece    characters after which a text is cut
        n_window   letters (bytes) of a long word that are merged at once
        """
        self._whole = whole
        self._letters = tokenizers.Tokenizer(whole.model)
        self._rule = rule if n_longest < n_window // 8 else None
        self._patterns = [tokenizers.Regex(pattern) for pattern in rule.patterns] if rule else []
        self._n_piece = n_piece
        self._n_window = n_window

    def encode(self, text: str) -> list[int]:
        """Ids of the text."""
        if len(text) <= self._n_piece or not self._rule:
            return self._encode_whole(text)
        ids: list[int] = []
        for piece in pieces(text, self._rule.n_digit, self._n_piece):
            is_cut = len(piece) < self._n_piece + _N_UNCUT
            ids += self._encode_whole(piece) if is_cut else self._encode_words(piece)
        return ids

    def _encode_whole(self, text: str) -> list[int]:
        return self._whole.encode(text, add_special_tokens=False).ids if text else []

    def _encode_words(self, text: str) -> list[int]:
        """Ids of a text that cannot be cut safely: word by word, the long ones in windows."""
        ids: list[int] = []
        short: list[str] = []
        for word in map(_letters_of, self._words(text)):
            if len(word) > self._n_window or len(short) == _N_WORDS_AT_ONCE:
                ids += self._merge_all(short)
                short = []
            if len(word) > self._n_window:
                ids += self._merge_long(word)
            else:
                short.append(word)
        return ids + self._merge_all(short)

    def _words(self, text: str) -> list[str]:
        """The words of a text; the library's own steps are slow where a word is huge."""
        whole = tokenizers.NormalizedString(text)
        if self._whole.normalizer and not text.isascii():
            whole.nfc()
        parts = [whole]
        for pattern in self._patterns:
            parts = [word for part in parts for word in part.split(pattern, "isolated")]
        return [word for part in parts if (word := part.normalized)]

    def _merge_all(self, words: list[str]) -> list[int]:
        if not words:
            return []
        return self._letters.encode(words, is_pretokenized=True, add_special_tokens=False).ids

    def _merge(self, word: str) -> list[int]:
        return self._letters.encode(word, add_special_tokens=False).ids

    def _merge_long(self, word: str) -> list[int]:
        """Ids of one word, window by window; each begins with the last tokens of the one before."""
        ids: list[int] = []
        start, end, n_back = 0, self._n_window, _N_UNSURE
        while True:
            window = self._merge(word[start:end])
            if ids and not self._stay_apart(ids[-1], window[0]):
                n_back *= 2
                if n_back > _MAX_BACK:
                    return self._merge(word)
                start -= self._n_letters(ids[-n_back:])
                del ids[-n_back:]
            elif end < len(word):
                ids += window[:-_N_UNSURE]
                start, n_back = end - self._n_letters(window[-_N_UNSURE:]), _N_UNSURE
                end = start + self._n_window
            else:
                return ids + window

    def _stay_apart(self, left: int, right: int) -> bool:
        word = self._token(left) + self._token(right)
        return self._merge(word) == [left, right]

    def _n_letters(self, ids: list[int]) -> int:
        return sum(len(self._token(i)) for i in ids)

    def _token(self, token_id: int) -> str:
        token = self._letters.id_to_token(token_id)
        assert token is not None, "the library gave this id"
        return token
