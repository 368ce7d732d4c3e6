"""Files that junto converts, run by llama.cpp and transformers: the logits are the goldens."""

from pathlib import Path
from typing import Any

import pytest

from junto.convert import Wishes, convert
from junto.text import load_text
from tests.convert.folders import write_folder
from tests.tiny import goldens
from tests.tiny.models import TINY

pytestmark = [
    pytest.mark.oracle,
    # the oracles' own warnings are not ours to mend
    pytest.mark.filterwarnings("default"),
]

BOUND = 5e-5
"""Largest error over the largest |logit|; a wrong byte is orders above it."""
N = 130

MODELS = [name for name in TINY if not name.endswith("_twin")]


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("tests.oracle.transformers_oracle")


@pytest.fixture(scope="module")
def llama_cpp() -> Any:
    return pytest.importorskip("tests.oracle.llama_cpp_oracle")


@pytest.mark.parametrize("name", MODELS)
def test_llama_cpp_computes_the_golden_of_a_converted_checkpoint(
    name: str, tmp_path: Path, llama_cpp: Any
) -> None:
    """In float32, as its kernels round activations where MXFP4 blocks are kept."""
    folder = write_folder(TINY[name], tmp_path / "m")
    summary = convert(folder, tmp_path / "m.gguf", Wishes(type="F32"))
    assert {share.type for share in summary.shares} == {"F32"}
    golden = goldens.load("llama_cpp", TINY[name].golden)
    with llama_cpp.Model(tmp_path / "m.gguf") as model:
        assert goldens.error_at(golden, N, model.logits(golden.tokens[:N])) < BOUND
        assert model.tokenize("to tot") == load_text(folder).encode("to tot") != []


@pytest.mark.parametrize("type_", [None, "Q4_K_M", "MXFP4"])
def test_llama_cpp_runs_quantised_files(type_: str | None, tmp_path: Path, llama_cpp: Any) -> None:
    """Its kernels round activations, and a router may turn: near, but not the golden."""
    name = "gpt_oss_mxfp4" if type_ is None else "qwen35moe_wide"
    convert(write_folder(TINY[name], tmp_path / "m"), tmp_path / "m.gguf", Wishes(type=type_))
    golden = goldens.load("llama_cpp", name)
    with llama_cpp.Model(tmp_path / "m.gguf") as model:
        logits = model.logits(golden.tokens[:1])
    assert 0 < goldens.error_at(golden, 1, logits) < 0.4


@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
def test_transformers_computes_the_golden_of_the_bf16_form(
    kind: str, tmp_path: Path, transformers: Any
) -> None:
    source = write_folder(TINY["gpt_oss_mxfp4"], tmp_path / "m")
    if kind == "gguf":
        convert(source, tmp_path / "m.gguf", Wishes())
        source = tmp_path / "m.gguf"
    convert(source, tmp_path / "bf16", Wishes(type="BF16"))
    golden = goldens.load("transformers", TINY["gpt_oss_mxfp4"].golden)
    logits = transformers.logits(transformers.load(tmp_path / "bf16"), golden.tokens[:N])
    assert goldens.error_at(golden, N, logits) < BOUND


def test_transformers_reads_the_tokenizer_made_from_a_gguf(
    tmp_path: Path, transformers: Any
) -> None:
    from transformers import AutoTokenizer

    folder = write_folder(TINY["gpt_oss_mxfp4"], tmp_path / "m")
    convert(folder, tmp_path / "m.gguf", Wishes())
    convert(tmp_path / "m.gguf", tmp_path / "bf16", Wishes())
    theirs = AutoTokenizer.from_pretrained(tmp_path / "bf16")
    assert theirs.encode("to tot", add_special_tokens=False) == load_text(folder).encode("to tot")
    assert (theirs.bos_token_id, theirs.eos_token_id) == (3, 4)
