"""Models are found where they lie, by path and by name."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from junto.errors import LibraryError
from junto.library.find import all_models, find_model
from junto.library.found import Found
from tests.library.hub_double import COMMIT, isolate

OLD = "2e" * 20


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine; the hub's cache in it."""
    return isolate(monkeypatch, tmp_path)


def put(folder: Path, *names: str, content: bytes = b"GGUF") -> list[Path]:
    paths = [folder / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return paths


def snapshot(cache: Path, repo: str, commit: str = COMMIT, ref: str = "main") -> Path:
    folder = cache / f"models--{repo.replace('/', '--')}"
    put(folder / "refs", ref, content=commit.encode())
    return folder / "snapshots" / commit


def ollama(store: Path, name: str, digest: str | None = None, **config: Any) -> Path:
    """A model in Ollama's store; returns its blob."""
    blobs = store / "blobs"
    weights = hashlib.sha256(name.encode()).hexdigest()
    about = hashlib.sha256(b"config of " + name.encode()).hexdigest()
    put(blobs, f"sha256-{about}", content=json.dumps(config).encode())
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": f"sha256:{about}"},
        {
            "mediaType": "application/vnd.ollama.image.model",
            "digest": digest or f"sha256:{weights}",
        },
    ]
    manifest = {"config": {"digest": f"sha256:{about}"}, "layers": layers}
    put(store / "manifests", name, content=json.dumps(manifest).encode())
    return put(blobs, f"sha256-{weights}")[0]


def by_name() -> dict[str, Found]:
    return {model.name: model for model in all_models()}


def test_a_path_that_exists_wins(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(snapshot(cache, "a/b"), "m-Q4_K_M.gguf")
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_model("a/b") == Path("a/b")


def test_models_of_the_hub_are_called_by_repository_and_type(cache: Path) -> None:
    names = ("m-Q4_K_M.gguf", "x/m-Q8_0-00001-of-00002.gguf", "x/m-Q8_0-00002-of-00002.gguf")
    q4, q8, _ = put(snapshot(cache, "a/b-GGUF"), *names)
    put(snapshot(cache, "a/b-GGUF"), "broken-Q6_K-00001-of-00002.gguf", "mmproj-F16.gguf")
    found = by_name()
    assert list(found) == ["a/b-GGUF:Q4_K_M", "a/b-GGUF:Q8_0"]
    assert found["a/b-GGUF:Q8_0"].n_bytes == 8
    assert find_model("a/b-gguf") == find_model("a/b-GGUF:Q4_K_M") == q4
    assert find_model("a/b-GGUF/x/m-Q8_0-00002-of-00002.gguf") == find_model("a/b-GGUF:q8_0") == q8


def test_two_files_of_one_type_are_called_by_their_files(cache: Path) -> None:
    put(snapshot(cache, "a/b"), "x-Q4_0.gguf", "y-Q4_0.gguf")
    assert list(by_name()) == ["a/b/x-Q4_0.gguf", "a/b/y-Q4_0.gguf"]
    assert find_model("a/b/y-Q4_0.gguf").name == "y-Q4_0.gguf"


def test_main_comes_first_and_other_commits_by_their_revision(cache: Path) -> None:
    old, also = put(snapshot(cache, "a/b", OLD, ref="refs/pr/1"), "m-Q4_0.gguf", "m-Q8_0.gguf")
    (new,) = put(snapshot(cache, "a/b"), "m-Q4_0.gguf")
    assert list(by_name()) == ["a/b:Q4_0", "a/b:Q4_0@refs/pr/1", "a/b:Q8_0@refs/pr/1"]
    assert find_model("a/b:Q4_0") == new
    assert find_model("a/b:Q4_0@refs/pr/1") == find_model(f"a/b:Q4_0@{OLD[:7]}") == old
    assert find_model("a/b:Q8_0") == also


def test_safetensors_are_found_when_they_are_whole(cache: Path) -> None:
    folder = snapshot(cache, "a/b")
    index = {"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}
    put(folder, "model.safetensors.index.json", content=json.dumps(index).encode())
    put(folder, "config.json", content=b'{"quantization_config": {"quant_method": "mxfp4"}}')
    put(folder, "model-1.safetensors")
    assert by_name() == {}
    put(folder, "model-2.safetensors")
    assert by_name()["a/b"].type == "MXFP4"
    assert find_model("a/b") == folder


def test_short_names_find_what_pull_brings_before_ollama_s(cache: Path, tmp_path: Path) -> None:
    blob = ollama(tmp_path / "ollama", "registry.ollama.ai/library/gpt-oss/20b", file_type="MXFP4")
    assert find_model("gpt-oss:20b") == blob
    assert by_name()["gpt-oss:20b"].type == "MXFP4"
    (pulled,) = put(snapshot(cache, "ggml-org/gpt-oss-20b-GGUF"), "gpt-oss-20b-MXFP4.gguf")
    assert find_model("gpt-oss:20b") == pulled


def test_ollama_s_names_are_its_own(cache: Path, tmp_path: Path) -> None:
    store = tmp_path / "ollama"
    latest = ollama(store, "registry.ollama.ai/library/qwen3/latest")
    ollama(store, "registry.ollama.ai/someone/model/1b")
    ollama(store, "hf.co/acme/Tiny-GGUF/Q8_0")
    assert set(by_name()) == {"qwen3:latest", "someone/model:1b", "hf.co/acme/Tiny-GGUF:Q8_0"}
    assert find_model("qwen3") == latest
    assert find_model("hf.co/acme/Tiny-GGUF:Q8_0").parent == store / "blobs"


@pytest.mark.parametrize("digest", ["sha256:../../secret", "sha256:" + "0" * 64, "md5:0"])
def test_a_manifest_that_points_elsewhere_is_passed_over(
    digest: str, cache: Path, tmp_path: Path
) -> None:
    put(tmp_path, "secret")
    ollama(tmp_path / "ollama", "registry.ollama.ai/library/odd/1b", digest)
    put(tmp_path / "ollama" / "manifests", "not/json/at/all", content=b"{")
    assert by_name() == {}


def test_folders_of_our_own_and_of_others_are_searched(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, more = tmp_path / "own", tmp_path / "more"
    monkeypatch.setenv("JUNTO_MODELS", f"{own}{os.pathsep}{more}")
    (mine,) = put(own, "qwen/Mine-Q5_K_M.gguf")
    put(more / "tiny", "config.json", content=b'{"text_config": {"dtype": "bfloat16"}}')
    put(more / "tiny", "model.safetensors")
    put(tmp_path / "home" / ".lmstudio" / "models", "pub/repo/Theirs-Q4_0.gguf")
    put(tmp_path / "llama", "ggml-org_Third-Q8_0.gguf")
    assert {name: (m.origin, m.type) for name, m in by_name().items()} == {
        "qwen/Mine-Q5_K_M": ("JUNTO_MODELS", "Q5_K_M"),
        "tiny": ("JUNTO_MODELS", "BF16"),
        "pub/repo/Theirs-Q4_0": ("LM Studio", "Q4_0"),
        "ggml-org_Third-Q8_0": ("llama.cpp", "Q8_0"),
    }
    put(more, "other/Mine-Q5_K_M.gguf", "mine-q5_k_m.gguf")
    assert find_model("mine-q5_k_m") == more / "mine-q5_k_m.gguf"
    for name in ("qwen/Mine-Q5_K_M", "QWEN/mine-q5_k_m.gguf"):
        assert find_model(name) == mine
    assert find_model("tiny") == more / "tiny"


def test_an_unknown_name_tells_how_to_get_it_and_what_is_close(cache: Path) -> None:
    put(snapshot(cache, "acme/Tiny-GGUF"), "m-Q4_0.gguf")
    with pytest.raises(LibraryError) as told:
        find_model("acme/Tiny-GUF:Q4_0")
    assert str(told.value) == (
        "acme/Tiny-GUF:Q4_0: no such file, and no model of that name is here; get it with:"
        " junto pull acme/Tiny-GUF:Q4_0 (closest here: acme/Tiny-GGUF:Q4_0)"
    )
    with pytest.raises(LibraryError, match=r"here; see junto list$"):
        find_model("whatever")


@pytest.mark.parametrize("text", ["no.gguf", "models/no.gguf", "./no", "/no/where", "~/x"])
def test_a_path_that_does_not_exist_is_left_to_who_opens_it(text: str, cache: Path) -> None:
    assert find_model(text) == Path(text)
