"""Which files of a repository make up the model that is meant."""

import pytest

from junto.errors import LibraryError
from junto.library.choice import choose, ggufs
from junto.library.names import demand_name

QUANTS = [
    "BF16/M-BF16-00001-of-00002.gguf",
    "BF16/M-BF16-00002-of-00002.gguf",
    "M-IQ4_XS.gguf",
    "M-Q4_K_M.gguf",
    "M-UD-Q4_K_M.gguf",
    "M-q8_0.gguf",
    "README.md",
    "imatrix.gguf",
    "mmproj-BF16.gguf",
]


def chosen(name: str, paths: list[str]) -> list[str]:
    return choose(paths, demand_name(name))


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("a/b", ["M-Q4_K_M.gguf"]),
        ("a/b:q4_k_m", ["M-Q4_K_M.gguf"]),
        ("a/b:UD-Q4_K_M", ["M-UD-Q4_K_M.gguf"]),
        ("a/b:Q8_0", ["M-q8_0.gguf"]),
        ("a/b:bf16", QUANTS[:2]),
        ("a/b/BF16/M-BF16-00002-of-00002.gguf", QUANTS[:2]),
        ("a/b/mmproj-BF16.gguf", ["mmproj-BF16.gguf"]),
    ],
)
def test_types_parts_and_files_are_chosen(name: str, files: list[str]) -> None:
    assert chosen(name, QUANTS) == files


def test_types_are_told_by_the_ends_of_names() -> None:
    types = [model.type for model in ggufs(QUANTS)]
    assert types == ["BF16", "IQ4_XS", "Q4_K_M", "UD-Q4_K_M", "Q8_0"]
    names = ["gpt-oss-20b-mxfp4.gguf", "M-MXFP4_MOE.gguf", "m.Q5_K_S.gguf", "Qwen3.gguf"]
    types = [model.type for model in ggufs(names)]
    assert types == ["MXFP4_MOE", None, "MXFP4", "Q5_K_S"]


def test_mxfp4_is_taken_where_there_is_no_q4_k_m() -> None:
    assert chosen("a/b", ["M-Q8_0.gguf", "M-MXFP4.gguf"]) == ["M-MXFP4.gguf"]
    assert chosen("a/b", ["M-UD-Q4_K_M.gguf", "M-Q8_0.gguf"]) == ["M-UD-Q4_K_M.gguf"]


def test_the_only_model_needs_no_usual_type() -> None:
    assert chosen("a/b", ["odd.gguf", "mmproj.gguf"]) == ["odd.gguf"]


@pytest.mark.parametrize(
    ("name", "paths", "told"),
    [
        ("a/b:Q3_K_S", QUANTS, "a/b:Q3_K_S: there is no Q3_K_S; it holds BF16, IQ4_XS, Q4_K_M"),
        ("a/b/x.gguf", QUANTS, "no such file in the repository; it holds BF16/M-BF16-00001"),
        ("a/b", ["M-IQ2_S.gguf", "M-IQ1_S.gguf"], "none of the usual types; it holds IQ1_S, IQ2_S"),
        ("a/b:Q8_0", ["A-Q8_0.gguf", "B-Q8_0.gguf"], "several files are Q8_0; name one: A-Q8_0"),
        ("a/b:BF16", QUANTS[:1], "1 of 2 parts of BF16/M-BF16.gguf are there"),
        ("a/b", ["README.md", "x.bin"], "holds no model in GGUF or safetensors"),
        ("a/b:Q8_0", ["model.safetensors"], "come in one type"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(name: str, paths: list[str], told: str) -> None:
    with pytest.raises(LibraryError) as raised:
        chosen(name, paths)
    assert told in str(raised.value)


def test_safetensors_come_with_what_belongs_to_them() -> None:
    paths = ["LICENSE.txt", "README.md", "chat_template.jinja", "config.json", "merges.txt"]
    paths += ["consolidated.safetensors", "model-00001-of-00002.safetensors"]
    paths += ["model-00002-of-00002.safetensors", "original/model.safetensors", "tokenizer.model"]
    assert chosen("a/b", paths) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "chat_template.jinja",
        "config.json",
        "merges.txt",
        "tokenizer.model",
    ]
