"""The draft head against llama.cpp and the network that trains the demo model, computing now."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import junto
from junto.convert import Wishes, convert
from tests.models.running import error
from tests.models.test_draft_head import BLOCK, RATIO2, changed, gguf, reference
from tests.oracle.test_live import LLAMA_CPP_BOUND, ORACLES_BOUND, TRANSFORMERS_BOUND
from tests.tiny import goldens
from tests.tiny.models import DRAFTING
from tests.tiny.random_weights import F32, I64, tokens

pytestmark = [
    pytest.mark.oracle,
    # the oracles' own warnings are not ours to mend
    pytest.mark.filterwarnings("default"),
]

LENGTH = 200


@pytest.fixture(scope="module")
def llama_cpp() -> Any:
    return pytest.importorskip("tests.oracle.llama_cpp_draft")


@pytest.fixture(scope="module")
def train_demo() -> Any:
    return pytest.importorskip("tests.oracle.train_demo_oracle")


def fresh_tokens(name: str, n_vocab: int) -> I64:
    return tokens(f"{name}/live draft", LENGTH, n_vocab)


def by_llama_cpp(oracle: Any, path: Path, ids: I64) -> F32:
    with oracle.DraftModel(path) as model:
        rows: F32 = model.draft_logits(ids)
        return rows


@pytest.mark.parametrize("name", DRAFTING)
def test_gguf_equals_llama_cpp(name: str, tmp_path: Path, llama_cpp: Any) -> None:
    path, ids = gguf(DRAFTING[name], tmp_path), fresh_tokens(name, DRAFTING[name].n_vocab)
    truth = by_llama_cpp(llama_cpp, path, ids)
    assert error(reference(path).draft_logits(ids), truth) < LLAMA_CPP_BOUND


@pytest.mark.parametrize("name", ["shared_head_head", "embed_tokens", "shared_head_norm"])
def test_a_draft_with_or_without_its_own_tensor_equals_llama_cpp(
    name: str, tmp_path: Path, llama_cpp: Any
) -> None:
    """Embedding and head of its own, other than the model's; and no norm of its own."""

    def change(t: dict[str, Any]) -> None:
        if name == "shared_head_norm":
            del t[f"{BLOCK}{name}.weight"]
        else:
            t[f"{BLOCK}{name}.weight"] = t["output.weight"][::-1]

    path = changed(RATIO2, tmp_path / "m.gguf", change)
    ids = fresh_tokens(name, RATIO2.n_vocab)
    truth = by_llama_cpp(llama_cpp, path, ids)
    assert error(reference(path).draft_logits(ids), truth) < LLAMA_CPP_BOUND


@pytest.mark.parametrize("name", DRAFTING)
def test_llama_cpp_computes_its_goldens(name: str, tmp_path: Path, llama_cpp: Any) -> None:
    golden = goldens.load("llama_cpp", f"draft/{name}")
    with llama_cpp.DraftModel(gguf(DRAFTING[name], tmp_path)) as model:
        logits = goldens.of_draft(model.draft_logits)(golden.tokens[:130])
    assert goldens.error_at(golden, 130, logits) < ORACLES_BOUND


def test_the_network_computes_its_golden(train_demo: Any) -> None:
    golden = goldens.load("train_demo", "draft/qwen35moe_ratio2")
    network = train_demo.network(RATIO2)
    draft = goldens.of_draft(lambda ids: train_demo.draft_logits(network, ids))
    logits = draft(golden.tokens[:130])
    assert goldens.error_at(golden, 130, logits) < ORACLES_BOUND


def test_llama_cpp_and_the_network_agree() -> None:
    theirs = goldens.load("llama_cpp", "draft/qwen35moe_ratio2")
    ours = goldens.load("train_demo", "draft/qwen35moe_ratio2")
    assert np.array_equal(theirs.tokens, ours.tokens)
    assert error(theirs.last, ours.last) < ORACLES_BOUND


def test_an_exported_network_drafts_as_it_was_trained(
    tmp_path: Path, train_demo: Any, llama_cpp: Any
) -> None:
    """Random weights of torch's, through the trainer's export, junto's converter and llama.cpp."""
    from safetensors.torch import save_file

    from tests.tools.small_networks import small_network
    from tools.train_demo.export import config_json, published_tensors

    network, folder = small_network("qwen35moe"), tmp_path / "m"
    folder.mkdir()
    save_file(published_tensors("qwen35moe", network), folder / "model.safetensors")
    config = config_json("qwen35moe", network.config)
    (folder / "config.json").write_text(json.dumps(config))
    ids = fresh_tokens("exported", config["vocab_size"])
    truth = train_demo.draft_logits(network, ids)
    convert(folder, tmp_path / "m.gguf", Wishes())
    for path in (folder, tmp_path / "m.gguf"):
        assert error(reference(path).draft_logits(ids), truth) < TRANSFORMERS_BOUND
        fast = junto.load(path, kv="f32", draft=True).draft_logits(ids)
        assert error(fast, truth) < TRANSFORMERS_BOUND
    assert error(by_llama_cpp(llama_cpp, tmp_path / "m.gguf", ids), truth) < LLAMA_CPP_BOUND
