"""What names mean."""

import pytest

from junto.errors import LibraryError
from junto.library.names import SHORT_NAMES, Reference, demand_name, read_name


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a/b", Reference("a/b")),
        ("a/b-1.5_x:Q4_K_M", Reference("a/b-1.5_x", type="Q4_K_M")),
        ("a/b/Q8_0/m.gguf", Reference("a/b", file="Q8_0/m.gguf")),
        ("a/b@v1", Reference("a/b", revision="v1")),
        ("a/b:Q8_0@refs/pr/3", Reference("a/b", type="Q8_0", revision="refs/pr/3")),
        ("a/b/m.gguf@1f1f", Reference("a/b", file="m.gguf", revision="1f1f")),
        ("https://huggingface.co/a/b", Reference("a/b")),
        (
            "https://huggingface.co/a/b/blob/main/x/m.gguf",
            Reference("a/b", file="x/m.gguf", revision="main"),
        ),
        ("https:/huggingface.co/a/b:Q8_0", Reference("a/b", type="Q8_0")),
        ("hf.co/a/b:Q8_0", Reference("a/b", type="Q8_0")),
        ("GPT-OSS:20b", Reference("ggml-org/gpt-oss-20b-GGUF")),
        ("gpt-oss:20b:q8_0", Reference("ggml-org/gpt-oss-20b-GGUF", type="Q8_0")),
    ],
)
def test_names_are_read(text: str, meant: Reference) -> None:
    assert read_name(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", "model", "model.gguf", "models/m.gguf", "./a/b", "/a/b", "../a/b", "~/a/b"),
        *("a/b/../c", "a/b//c", "a/b/c\\d", "a/b:", "a/b@", "a/b@../x", "a b/c", "gpt-oss:7b"),
    ],
)
def test_paths_and_nonsense_are_no_names(text: str) -> None:
    assert read_name(text) is None
    with pytest.raises(LibraryError, match=r"expected ORG/REPO.*gpt-oss:20b"):
        demand_name(text)


def test_a_reference_is_written_as_it_is_read() -> None:
    for text in ("a/b", "a/b:Q8_0", "a/b/c.gguf@v1"):
        assert str(demand_name(text)) == text


def test_short_names_stand_for_repositories() -> None:
    assert all(read_name(repo) == Reference(repo) for repo in SHORT_NAMES.values())
