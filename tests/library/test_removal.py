"""What is removed, and what is left alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from junto.errors import LibraryError
from junto.library import hub
from junto.library.find import all_models, find_among
from junto.library.names import demand_name
from junto.library.removal import remove
from tests.library.hub_double import HubDouble, isolate, serving
from tests.library.test_find import ollama, put

REPO = "acme/Tiny-GGUF"
SMALL, BIG = b"a" * 1_009, b"b" * 5_003


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache with two models of one repository in it."""
    double = HubDouble({REPO: {"m-Q4_0.gguf": SMALL, "m-Q8_0.gguf": BIG}})
    with serving(double) as address:
        cache = isolate(monkeypatch, tmp_path, address)
        for name in ("Q4_0", "Q8_0"):
            hub.fetch(hub.plan(demand_name(f"{REPO}:{name}"), cache), lambda done, total: None)
        yield cache


def remove_named(name: str) -> int:
    models = list(all_models())
    model = find_among(models, name)
    assert model is not None
    return remove(model, [other for other in models if other != model])


def names() -> list[str]:
    return [model.name for model in all_models()]


def test_one_model_of_a_repository_goes_and_the_other_stays(cache: Path) -> None:
    assert remove_named(f"{REPO}:Q8_0") == len(BIG)
    assert names() == [f"{REPO}:Q4_0"]
    assert [p.stat().st_size for p in cache.rglob("blobs/*") if p.stat().st_size] == [len(SMALL)]


def test_the_last_model_takes_the_repository_with_it(cache: Path) -> None:
    remove_named(f"{REPO}:Q8_0")
    assert remove_named(REPO) == len(SMALL)
    assert names() == []
    assert not (cache / "models--acme--Tiny-GGUF").exists()


def test_a_file_of_ours_goes_and_a_link_leaves_what_it_points_to(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    monkeypatch.setenv("JUNTO_MODELS", str(own))
    file, elsewhere = put(own, "mine.gguf")[0], put(tmp_path, "elsewhere.gguf")[0]
    (own / "link.gguf").symlink_to(elsewhere)
    assert remove_named("mine") == len(b"GGUF")
    assert remove_named("link") == 0
    assert not file.exists()
    assert elsewhere.exists()


def test_other_programs_stores_are_left_alone(tmp_path: Path, cache: Path) -> None:
    blob = ollama(tmp_path / "ollama", "registry.ollama.ai/library/qwen3/4b")
    (theirs,) = put(tmp_path / "llama", "Theirs.gguf")
    with pytest.raises(LibraryError, match="remove it with: ollama rm qwen3:4b"):
        remove_named("qwen3:4b")
    with pytest.raises(LibraryError, match=r"a folder of llama\.cpp, which junto leaves alone"):
        remove_named("Theirs")
    assert blob.exists()
    assert theirs.exists()
