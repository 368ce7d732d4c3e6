"""Every published vector, by both routes, and what the vectors leave open."""

import json
import unicodedata
from typing import Any

import pytest

from junto.chat.tokenizer import Tokenizer
from junto.chat.vocabulary import TokenKind
from tests.chat.vocabularies import real_metadata
from tests.data_dir import find

ROUTES = ("qwen35", "qwen35_file", "gpt_oss", "gpt_oss_file")


def rows(route: str) -> list[dict[str, Any]]:
    family = "qwen35" if route.startswith("qwen35") else "gpt-oss"
    lines = find(f"tokenizers/{family}.testvectors.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest) -> tuple[str, Tokenizer]:
    return request.param, request.getfixturevalue(request.param)


def test_vectors_give_their_ids_and_come_back(route: tuple[str, Tokenizer]) -> None:
    """A tokenizer.json names no ids above <|endofprompt|>; a GGUF file has them as padding."""
    name, tokenizer = route
    checked = 0
    for row in rows(name):
        if name == "gpt_oss_file" and "<|reserved_201087|>" in row["text"]:
            continue
        ids = tokenizer.encode(row["text"], special=True)
        assert ids == row["ids"], ascii(row["text"])
        composed = unicodedata.normalize("NFC", row["text"])
        expected = composed if name.startswith("qwen35") else row["text"]
        assert tokenizer.decode(ids, special=True) == expected
        checked += 1
    assert checked == {"qwen35": 89, "qwen35_file": 89, "gpt_oss": 88, "gpt_oss_file": 87}[name]


def test_plain_text_never_gives_an_added_token(route: tuple[str, Tokenizer]) -> None:
    name, tokenizer = route
    spelled = [text for text in tokenizer.added_texts if "reserved" not in text]
    for text in [*spelled, "".join(spelled), *(row["text"] for row in rows(name))]:
        ids = tokenizer.encode(text, special=False)
        added = [i for i in ids if tokenizer.kind(i) is not TokenKind.NORMAL]
        assert added == [], text
        if text in spelled:
            assert len(ids) > 1
            assert tokenizer.decode(ids) == text


def test_llama_cpp_s_own_vectors(tmp_path_factory: pytest.TempPathFactory) -> None:
    """llama.cpp does not compose characters, the real tokenizer does: 3 of 51 texts differ."""
    relative = "tokenizers/ggml-vocab-qwen35.gguf"
    metadata = real_metadata(f"{relative}.xz", tmp_path_factory.mktemp("gguf"))
    tokenizer = Tokenizer.from_gguf(metadata, relative)
    texts = find(f"{relative}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = find(f"{relative}.out").read_text().split("\n")
    assert len(texts) == len(lines) == 51
    n_composed = 0
    for text, line in zip(texts, lines, strict=True):
        if text != unicodedata.normalize("NFC", text):
            n_composed += 1
            continue
        assert tokenizer.encode(text, special=False) == [int(i) for i in line.split()]
    assert n_composed == 3


def test_ends_of_answers(qwen35: Tokenizer, gpt_oss: Tokenizer, smollm2: Tokenizer) -> None:
    ends = {
        qwen35: {"<|im_end|>", "<|endoftext|>"},
        gpt_oss: {"<|return|>", "<|call|>", "<|endoftext|>"},
        smollm2: {"<|im_end|>", "<|endoftext|>"},
    }
    for tokenizer, names in ends.items():
        assert {tokenizer.token_text(i) for i in tokenizer.eos_ids} == names
        assert tokenizer.chat_template
        assert not tokenizer.add_bos
        assert tokenizer.notes == ()


def test_smollm2_takes_digits_one_by_one(smollm2: Tokenizer) -> None:
    assert smollm2.n_vocab == 49152
    ids = smollm2.encode("<|im_start|>user\nabc 2025!", special=True)
    assert [smollm2.decode([i], special=True) for i in ids] == [
        "<|im_start|>",
        "user",
        "\n",
        "abc",
        " ",
        *"2025",
        "!",
    ]
