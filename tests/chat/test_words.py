"""Long texts: the ids of the library given the whole at once, at a cost in proportion to length."""

import string
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models

from junto.chat.cuts import pieces
from junto.chat.pretokenizers import WORD_RULES, WordRule
from junto.chat.tokenizer import Tokenizer
from junto.chat.vocabulary import BYTE_OF_LETTER
from junto.chat.words import WordEncoder

# One of every kind that a pattern or a cut tells apart, and what composes.
CHARACTERS = [
    *"aB7'/!?-_ \n\r\t",
    *(
        "é",
        "e\u0301",
        "\u0301",
        "ि",
        "中",
        "\uff0c",
        "가",
        "\u1100",
        "\u1161",
        "🦙",
        "ǅ",
        "\u0661",
        "½",
    ),
    *("\u00a0", "\u3000", "\x1c", "\x85", "\u200b", "\ufeff", "'s", "'ll", "<|im_end|>"),
]
UNIT = st.lists(st.sampled_from(CHARACTERS), min_size=1, max_size=4).map("".join)
RUN = st.tuples(UNIT, st.integers(1, 60)).map(lambda run: run[0] * run[1])
TEXT = st.lists(RUN, max_size=8).map("".join)


def byte_encoder(rule: WordRule) -> tokenizers.Tokenizer:
    """The library's encoder for a vocabulary of bytes alone, so ids show only where words end."""
    merges = [(a, b) for a in "aB71 " for b in "aB71 " if " " not in a + b]
    tokens = [*BYTE_OF_LETTER, *(a + b for a, b in merges)]
    return library(dict(zip(tokens, range(len(tokens)), strict=True)), merges, rule)


def library(
    ids: dict[str, int], merges: list[tuple[str, str]], rule: WordRule
) -> tokenizers.Tokenizer:
    whole = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=rule.whole_words))
    whole.pre_tokenizer = rule.pre_tokenizer()
    if normalizer := rule.normalizer():
        whole.normalizer = normalizer
    return whole


def plain_ids(whole: tokenizers.Tokenizer, text: str) -> list[int]:
    return whole.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o"])
@given(text=TEXT, n_piece=st.integers(1, 40))
@settings(deadline=None)
def test_a_cut_changes_no_word(pre: str, text: str, n_piece: int) -> None:
    """Every word is compared: the words of the pieces are those of the whole."""
    rule = WORD_RULES[pre]

    def words(part: str) -> list[str]:
        if normalizer := rule.normalizer():
            part = normalizer.normalize_str(part)
        return [word for word, _ in rule.pre_tokenizer().pre_tokenize_str(part)]

    cut = list(pieces(text, rule.n_digit, n_piece))
    assert "".join(cut) == text
    assert [word for piece in cut for word in words(piece)] == words(text)


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o"])
def test_a_cut_is_found_where_it_should_be(pre: str) -> None:
    rule = WORD_RULES[pre]
    texts = ["word " * 40, "word\tword\n" * 20, "中1中2" * 50, "!x" * 99, "f(x){}" * 40]
    if rule.n_digit:
        texts += ["7" * 300, "中" + "7" * 300, "x  " + "7" * 300]
    for text in texts:
        cut = list(pieces(text, rule.n_digit, 20))
        assert max(map(len, cut)) < 20 + 8, text


def test_digits_are_cut_only_where_the_beginning_of_their_run_is_certain() -> None:
    text = "\u0661" + "7" * 300
    assert list(pieces(text, 3, 20)) == [text]


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o"])
@given(text=TEXT)
@settings(deadline=None, max_examples=30)
def test_pieces_and_words_of_any_text_give_the_library_s_ids(pre: str, text: str) -> None:
    whole = byte_encoder(WORD_RULES[pre])
    encoder = WordEncoder(whole, WORD_RULES[pre], n_longest=2, n_piece=7, n_window=32)
    assert encoder.encode(text) == plain_ids(whole, text)
    assert encoder._encode_words(text) == plain_ids(whole, text)


LETTERS = st.text("abc", min_size=1, max_size=400)
PATTERNED = st.tuples(st.text("abc", max_size=9), st.text("abc", min_size=1, max_size=7)).map(
    lambda parts: parts[0] + parts[1] * 60
)


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Merges in any order, even of what later merges make, and tokens that no merge makes."""
    tokens = dict.fromkeys([*BYTE_OF_LETTER])
    made = ["a", "b", "c"]
    merges: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(1, 12))):
        pair = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        if len(pair[0] + pair[1]) <= 7 and pair not in merges:
            merges.append(pair)
            made.append(pair[0] + pair[1])
    unmade = draw(st.lists(st.text("abc", min_size=2, max_size=7), max_size=3))
    tokens |= dict.fromkeys([*made, *unmade])
    shuffled = draw(st.permutations(merges))
    return {token: i for i, token in enumerate(tokens)}, shuffled


@pytest.mark.parametrize("whole_words", [False, True])
@given(vocabulary=vocabularies(), word=st.one_of(LETTERS, PATTERNED))
@settings(deadline=None, max_examples=300)
def test_windows_give_the_merging_of_the_whole_word(
    whole_words: bool, vocabulary: tuple[dict[str, int], list[tuple[str, str]]], word: str
) -> None:
    ids, merges = vocabulary
    rule = WordRule(WORD_RULES["qwen2"].patterns, whole_words=whole_words)
    whole = library(ids, merges, rule)
    encoder = WordEncoder(whole, rule, n_longest=7, n_piece=3, n_window=57)
    assert encoder._merge_long(word) == plain_ids(whole, word)


def test_windows_go_back_where_the_end_of_a_word_decides_its_beginning() -> None:
    """Neighbours in a chain of 62 letters merge from its end on, whatever a window shows."""
    chain = string.ascii_letters + string.digits
    merges = list(pairwise(chain))[::-1]
    tokens = [*BYTE_OF_LETTER, *(a + b for a, b in merges)]
    rule = WORD_RULES["gpt-2"]
    whole = library(dict(zip(tokens, range(len(tokens)), strict=True)), merges, rule)
    encoder = WordEncoder(whole, rule, n_longest=2, n_window=57)
    for word in (chain, chain[:61], chain[:60] + chain, chain * 3):
        assert encoder._merge_long(word) == encoder._merge(word)


def test_the_last_window_is_no_word_of_its_own() -> None:
    """Where whole words are taken as they stand, the end of a word must not pass for one."""
    rule = WordRule(WORD_RULES["gpt-2"].patterns, whole_words=True)
    ends = ["abcabca", "bcabcab", "cabcabc", "abcab", "bcabc", "cabca"]
    tokens = [*BYTE_OF_LETTER, *ends]
    whole = library(dict(zip(tokens, range(len(tokens)), strict=True)), [], rule)
    encoder = WordEncoder(whole, rule, n_longest=7, n_window=57)
    for n_letters in range(57, 120):
        word = ("abc" * 40)[:n_letters]
        assert encoder._merge_long(word) == encoder._merge(word)


@pytest.mark.parametrize("family", ["qwen35", "gpt_oss"])
def test_long_words_of_real_vocabularies_give_the_library_s_ids(
    family: str, request: pytest.FixtureRequest
) -> None:
    """Letters of one, two, three and four bytes, alone and mixed, in windows of an odd size."""
    tokenizer: Tokenizer = request.getfixturevalue(family)
    encoder = tokenizer._words
    small = WordEncoder(encoder._whole, encoder._rule, n_longest=128, n_piece=100, n_window=1031)

    @given(text=st.text("aAbeé中国的🦙ि\u0301 \n!=-/", max_size=12), n=st.integers(1, 700))
    @settings(deadline=None, max_examples=60)
    def holds(text: str, n: int) -> None:
        assert small.encode(text * n) == plain_ids(encoder._whole, text * n)

    holds()


def cpu_seconds(encode: Callable[[str], list[int]], text: str, n_runs: int) -> float:
    seconds = []
    for _ in range(n_runs):
        start = time.process_time()
        encode(text)
        seconds.append(time.process_time() - start)
    return min(seconds)


def assert_linear(tokenizer: Tokenizer, unit: str) -> None:
    """1 MB costs at most 15 times of 100 kB; the best of several runs, in processor time."""

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, special=False)

    n_units = 100_000 // len(unit.encode())
    small, large = unit * n_units, unit * (10 * n_units)
    ratio = cpu_seconds(encode, large, 2) / cpu_seconds(encode, small, 5)
    assert ratio < 15, f"{unit!r}: {ratio:.1f}"
    assert encode(small) == plain_ids(tokenizer._words._whole, small)


@pytest.mark.parametrize("unit", ["a", "1", " "])
def test_cost_grows_with_length_alone(qwen35: Tokenizer, unit: str) -> None:
    assert_linear(qwen35, unit)


UNITS = [
    "a",
    "1",
    " ",
    "\n",
    "!",
    "A",
    "中",
    "é",
    "🦙",
    "\u0301",
    "a ",
    "ab",
    "\u0661",
    "中\uff0c",
    "x = 1;\n",
]


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qwen35", "gpt_oss", "qwen35_file", "gpt_oss_file"])
@pytest.mark.parametrize("unit", UNITS)
def test_cost_of_any_run_grows_with_length_alone(
    family: str, unit: str, request: pytest.FixtureRequest
) -> None:
    assert_linear(request.getfixturevalue(family), unit)
