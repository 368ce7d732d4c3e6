"""tokenizer.json and the files beside it."""

import json
from pathlib import Path
from typing import Any

import pytest

from junto.chat.tokenizer import Tokenizer
from junto.errors import TextError
from tests.chat.vocabularies import MERGES, WORDS, byte_letters, tiny_tokenizer

N_WORDS = 256 + len(WORDS)


def tiny_json(**changes: Any) -> dict[str, Any]:
    ids = {token: i for i, token in enumerate([*byte_letters(), *WORDS])}
    added = [("<s>", True), ("<|im_end|>", True), ("</think>", False)]
    parsed = {
        "added_tokens": [
            {"id": N_WORDS + n, "content": content, "special": special}
            for n, (content, special) in enumerate(added)
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": True,
                },
            ],
        },
        "model": {"type": "BPE", "vocab": ids, "merges": [merge.split() for merge in MERGES]},
    }
    return parsed | changes


def write(folder: Path, parsed: object, **beside: object) -> Path:
    for name, content in beside.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(parsed))
    return path


def test_same_ids_as_the_same_vocabulary_in_metadata(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(write(tmp_path, tiny_json()))
    text = "hell hello e\u0301 12 <|im_end|> </think>"
    expected = tiny_tokenizer(pre="smollm").encode(text.replace("e\u0301", "é"), special=False)
    assert tokenizer.encode(text, special=False) == expected
    assert tokenizer.encode("</think>he<|im_end|>", special=True) == [N_WORDS + 2, 256, N_WORDS + 1]
    assert tokenizer.decode([N_WORDS + 2, 256, N_WORDS + 1]) == "</think>he"
    assert tokenizer.n_vocab == N_WORDS + 3


def test_merges_may_be_written_as_texts(tmp_path: Path) -> None:
    parsed = tiny_json()
    parsed["model"]["merges"] = list(MERGES)
    assert Tokenizer.from_file(write(tmp_path, parsed)).encode("hell", special=False) == [258]


def test_files_beside_say_what_begins_and_ends(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        tiny_json(),
        generation_config={"eos_token_id": [N_WORDS + 2]},
        tokenizer_config={
            "bos_token": {"content": "<s>"},
            "eos_token": "<s>",
            "add_bos_token": True,
            "chat_template": [
                {"name": "tool_use", "template": "T"},
                {"name": "default", "template": "D"},
            ],
        },
    )
    tokenizer = Tokenizer.from_file(path)
    assert tokenizer.bos_id == tokenizer.eos_id == N_WORDS
    assert tokenizer.eos_ids == {N_WORDS, N_WORDS + 1, N_WORDS + 2}
    assert tokenizer.add_bos
    assert tokenizer.chat_template == "D"
    (tmp_path / "chat_template.jinja").write_text("J")
    assert Tokenizer.from_file(path).chat_template == "J"


def test_a_post_processor_that_begins_with_a_token_adds_bos(tmp_path: Path) -> None:
    single = [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]
    parsed = tiny_json(
        post_processor={
            "type": "Sequence",
            "processors": [
                {"type": "ByteLevel"},
                {"type": "TemplateProcessing", "single": single},
            ],
        }
    )
    path = write(tmp_path, parsed, tokenizer_config={"bos_token": "<s>"})
    assert Tokenizer.from_file(path).add_bos


@pytest.mark.parametrize(
    ("parsed", "message"),
    [
        ([], "expected a JSON object, got list"),
        ({"model": {"type": "Unigram"}}, "model type is 'Unigram'"),
        (tiny_json(pre_tokenizer={"type": "Metaspace"}), "not byte-level"),
        (tiny_json(model={"type": "BPE", "byte_fallback": True}), "sets 'byte_fallback'"),
        (tiny_json(model={"type": "BPE", "vocab": {}, "merges": []}, added_tokens=[]), "form"),
        (tiny_json(model={"type": "BPE", "vocab": {"a": "b"}, "merges": []}), "form"),
        (tiny_json(added_tokens=[{"id": 1 << 40, "content": "x"}]), "highest id is 1099511627776"),
        (tiny_json(added_tokens=[{"id": -3, "content": "x"}]), "id of token 'x' is -3"),
        (tiny_json(normalizer={"type": "Nothing"}), "tokenizer.json: "),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, parsed: object, message: str) -> None:
    with pytest.raises(TextError, match=message) as error:
        Tokenizer.from_file(write(tmp_path, parsed))
    assert "\n" not in str(error.value)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"type"')
    with pytest.raises(TextError, match="not valid JSON"):
        Tokenizer.from_file(path)


def test_an_end_token_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, tiny_json(), generation_config={"eos_token_id": 999})
    with pytest.raises(TextError, match=r"generation_config.json: eos_token_id is 999"):
        Tokenizer.from_file(path)
