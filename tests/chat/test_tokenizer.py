"""Vocabularies from metadata: what is read, what is refused, what plain text may become."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from junto.chat.tokenizer import Tokenizer
from junto.chat.vocabulary import TokenKind
from junto.errors import TextError
from junto.formats.gguf import read_gguf
from tests.chat.vocabularies import CONTROL, MERGES, byte_letters, tiny_metadata, tiny_tokenizer
from tests.data_dir import find

MALFORMED = {
    "m_tok_types_short": "token_type' has 1 entries, expected 3",
    "m_tok_scores_type": "tokens' must hold strings",
    "m_tok_id_range": "eos_token_id' is 999999, expected 0 to 1",
    "m_merge_bad": "merges' entry 0 is 'ab'",
}


@pytest.mark.parametrize("row_id", MALFORMED)
def test_hostile_metadata_are_refused_in_one_line(row_id: str, tmp_path: Path) -> None:
    lines = find("gguf/malformed.jsonl").read_text().splitlines()
    row = next(row for row in map(json.loads, lines) if row["id"] == row_id)
    path = tmp_path / "hostile.gguf"
    path.write_bytes(base64.b64decode(row["b64"]))
    with pytest.raises(TextError, match=MALFORMED[row_id]) as error:
        Tokenizer.from_gguf(read_gguf(path).metadata, path.name)
    assert str(error.value).startswith("hostile.gguf: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "llama"}, "model' is 'llama'; this build reads 'gpt2'"),
        ({"pre": "falcon"}, "pre' is 'falcon'; this build reads: .*qwen35"),
        ({"tokens": None}, "no 'tokenizer.ggml.tokens'"),
        ({"tokens": []}, "tokens' is empty"),
        ({"tokens": 7}, "tokens' is not a list"),
        ({"token_type": ["x"] * 269}, "token_type' must hold numbers"),
        ({"token_type": [7] * 269}, "token_type' holds 7, expected 0 to 6"),
        ({"merges": ["h e", "a b c"]}, "merges' entry 1 is 'a b c'"),
        ({"bos_token_id": -1}, "bos_token_id' is -1, expected 0 to 268"),
        ({"eot_token_id": True}, "eot_token_id' is True"),
    ],
)
def test_broken_metadata_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TextError, match=message):
        tiny_tokenizer(**changes)


def test_merges_of_what_is_no_token_are_left_out_with_a_note() -> None:
    """Synthetic files for speed tests have tokens tok0, tok1, ... and one merge of t and o."""
    merges = ["h z", "h e", "h <|im_end|", "h eeeeeeeeeeeeeeeeee"]
    tokenizer = tiny_tokenizer(merges=merges)
    assert any("3 merges name no tokens and are left out" in note for note in tokenizer.notes)
    assert tokenizer.decode(tokenizer.encode("he", special=False)) == "he"
    assert len(tokenizer.encode("he", special=False)) == 1


def test_merges_join_bytes_and_words() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer.encode("hell hell é x", special=False)
    assert [tokenizer.token_bytes(i) for i in ids] == [
        b"hell",
        b" hell",
        b" ",
        "é".encode(),
        b" ",
        b"x",
    ]


def test_added_tokens_come_out_only_when_asked() -> None:
    tokenizer = tiny_tokenizer()
    text = "<|im_start|>he</think><|im_end|"
    parsed = tokenizer.encode(text, special=True)
    plain = tokenizer.encode(text, special=False)
    assert [tokenizer.token_text(i) for i in parsed[:3]] == ["<|im_start|>", "he", "</think>"]
    assert all(tokenizer.kind(i) is TokenKind.NORMAL for i in plain)
    assert tokenizer.decode(plain) == tokenizer.decode(parsed, special=True) == text
    assert tokenizer.decode(parsed) == "he</think><|im_end|"


def test_the_longest_added_token_wins() -> None:
    metadata = tiny_metadata()
    tokens = [*metadata["tokenizer.ggml.tokens"], "<|im_end|>>"]
    tokenizer = tiny_tokenizer(
        tokens=tokens, token_type=[*metadata["tokenizer.ggml.token_type"], 3]
    )
    assert tokenizer.encode("<|im_end|>>", special=True) == [len(tokens) - 1]


def test_merges_cannot_make_a_control_token() -> None:
    """A hostile file lists merges that build <|im_end|> out of letters."""
    letters = "<|im_end|>"
    steps = [f"{letters[:n]} {letters[n]}" for n in range(1, len(letters))]
    metadata = tiny_metadata()
    between = [letters[:n] for n in range(2, len(letters))]
    tokenizer = tiny_tokenizer(
        tokens=[*metadata["tokenizer.ggml.tokens"], *between],
        token_type=[*metadata["tokenizer.ggml.token_type"], *[1] * len(between)],
        merges=[*MERGES, *steps],
        pre="gpt-2",
    )
    for text in (letters, "x" + letters):
        ids = tokenizer.encode(text, special=False)
        assert not any(tokenizer.is_control(i) for i in ids)
        assert tokenizer.decode(ids) == text


def test_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(TextError, match="token id 269, expected 0 to 268"):
        tiny_tokenizer().decode([269])


def test_bytes_of_tokens() -> None:
    tokenizer = tiny_tokenizer()
    assert [tokenizer.token_bytes(i) for i in range(256)] == [bytes([i]) for i in range(256)]
    control = tokenizer.added_id(CONTROL[0])
    assert control is not None
    assert tokenizer.is_control(control)
    assert tokenizer.token_bytes(control) == b""
    assert tokenizer.token_bytes(control, special=True) == CONTROL[0].encode()
    assert tokenizer.token_bytes(268) == b""
    assert tokenizer.added_id("he") is None


def test_lone_surrogates_become_replacement_characters() -> None:
    tokenizer = tiny_tokenizer()
    assert tokenizer.decode(tokenizer.encode("a\ud800b", special=False)) == "a\ufffdb"


def test_a_file_that_does_not_say_how_words_are_cut_is_noted() -> None:
    metadata = tiny_metadata()
    del metadata["tokenizer.ggml.pre"]
    assert Tokenizer.from_gguf(metadata, "old.gguf").notes == (
        "old.gguf: no 'tokenizer.ggml.pre'; words are cut as GPT-2 does",
    )


def test_bos_follows_the_file_and_else_the_family() -> None:
    assert tiny_tokenizer(pre="llama-bpe", bos_token_id=263).add_bos
    assert not tiny_tokenizer(pre="llama-bpe", bos_token_id=263, add_bos_token=False).add_bos
    assert tiny_tokenizer(bos_token_id=263, add_bos_token=True).add_bos
    assert not tiny_tokenizer(add_bos_token=True).add_bos, "no bos token to add"


@pytest.mark.parametrize(
    ("pre", "words"),
    [
        ("gpt-2", ["don", "'t", " 1234", " x", "\n", "\n", "y"]),
        ("smollm", ["don", "'t", " ", "1", "2", "3", "4", " x", "\n", "\n", "y"]),
        ("llama-bpe", ["don", "'t", " ", "123", "4", " x", "\n\n", "y"]),
        ("qwen2", ["don", "'t", " ", "1", "2", "3", "4", " x", "\n\n", "y"]),
        ("qwen35", ["don", "'t", " ", "1", "2", "3", "4", " x", "\n\n", "y"]),
        ("gpt-4o", ["don't", " ", "123", "4", " x", "\n\n", "y"]),
    ],
)
def test_families_cut_words_differently(pre: str, words: list[str]) -> None:
    """Each word is made a token of its own that merges reach, so the cut shows in the ids."""
    letters = byte_letters()
    tokens, merges = list(letters), []
    for word in words:
        spelled = "".join(letters[byte] for byte in word.encode())
        for n in range(2, len(spelled) + 1):
            if spelled[:n] not in tokens:
                tokens.append(spelled[:n])
                merges.append(f"{spelled[: n - 1]} {spelled[n - 1]}")
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
    }
    tokenizer = Tokenizer.from_gguf(metadata, "words.gguf")
    ids = tokenizer.encode("don't 1234 x\n\ny", special=False)
    assert [tokenizer.decode([i]) for i in ids] == words


def test_marks_join_letters_in_qwen35_alone() -> None:
    from junto.chat.pretokenizers import WORD_RULES

    cuts = {}
    for pre in ("qwen2", "qwen35", "gpt-4o"):
        cutter = WORD_RULES[pre].pre_tokenizer()
        cuts[pre] = [where for _, where in cutter.pre_tokenize_str("aिb")]
    assert cuts["qwen2"] != [(0, 3)]
    assert cuts["qwen35"] == cuts["gpt-4o"] == [(0, 3)]
