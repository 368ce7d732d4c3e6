"""junto against transformers and llama.cpp, both computing now, on tokens that no golden holds.

Each test compares one run of LENGTH tokens, past a block of 64 and a window of 128. The goldens
are checked too: that the oracles still compute what was recorded.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import junto
from tests.models.test_goldens import load_as_llama_cpp
from tests.tiny import goldens, smollm2
from tests.tiny.models import MIXES, TINY
from tests.tiny.random_weights import F32, I64, tokens
from tests.tiny.real_layers import REAL_LAYERS

pytestmark = [
    pytest.mark.oracle,
    # the oracles' own warnings are not ours to mend
    pytest.mark.filterwarnings("default"),
]

LENGTH = 200
TRANSFORMERS_BOUND = 2e-4
LLAMA_CPP_BOUND = 5e-4
ORACLES_BOUND = 5e-5
"""Largest error over the largest |logit|. The oracles differ from each other by 1e-5 at most."""
GPT2_BOUND = 2e-3
"""But for GPT-2: llama.cpp looks GELU up in a table of float16 values."""

MODELS = [name for name in TINY if not name.endswith("_twin")]


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("tests.oracle.transformers_oracle")


@pytest.fixture(scope="module")
def llama_cpp() -> Any:
    return pytest.importorskip("tests.oracle.llama_cpp_oracle")


def fresh_tokens(name: str, n: int = LENGTH) -> I64:
    return tokens(f"{name}/live", n, TINY[name].n_vocab)


def error(logits: F32, truth: F32) -> float:
    assert logits.shape == truth.shape
    return float(np.abs(logits - truth).max() / np.abs(truth).max())


@pytest.mark.parametrize("name", TINY)
def test_safetensors_equal_transformers(name: str, tmp_path: Path, transformers: Any) -> None:
    folder, ids = TINY[name].write_safetensors(tmp_path), fresh_tokens(name)
    truth = transformers.logits(transformers.load(folder), ids)
    assert error(junto.load(folder, backend="reference").logits(ids), truth) < TRANSFORMERS_BOUND


@pytest.mark.parametrize("name", MODELS)
def test_gguf_equals_transformers(name: str, tmp_path: Path, transformers: Any) -> None:
    ids = fresh_tokens(name)
    truth = transformers.logits(transformers.load(TINY[name].write_safetensors(tmp_path)), ids)
    model = junto.load(TINY[name].write_gguf(tmp_path / f"{name}.gguf"), backend="reference")
    assert error(model.logits(ids), truth) < TRANSFORMERS_BOUND


@pytest.mark.parametrize("name", MODELS)
def test_gguf_equals_llama_cpp(name: str, tmp_path: Path, llama_cpp: Any) -> None:
    path, ids = tmp_path / f"{name}.gguf", fresh_tokens(name)
    with llama_cpp.Model(TINY[name].write_gguf(path, dequantized=True)) as oracle:
        truth = oracle.logits(ids)
    bound = GPT2_BOUND if name == "gpt2" else LLAMA_CPP_BOUND
    assert error(load_as_llama_cpp(path).logits(ids), truth) < bound


@pytest.mark.parametrize("name", MIXES)
def test_quantised_gguf_equals_llama_cpp_on_its_twin(
    name: str, tmp_path: Path, llama_cpp: Any
) -> None:
    mix, ids = MIXES[name], fresh_tokens(MIXES[name].model.name)
    with llama_cpp.Model(mix.write_twin(tmp_path / "twin.gguf")) as oracle:
        truth = oracle.logits(ids)
    model = load_as_llama_cpp(mix.write_gguf(tmp_path / "quantised.gguf"))
    assert error(model.logits(ids), truth) < LLAMA_CPP_BOUND


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("qwen35moe_ratio1", {"fuse_gate_up": True}),
        ("qwen35moe_ratio2", {"draft": "shipped"}),
        ("qwen35moe_ratio2", {"fuse_gate_up": True, "draft": "shipped"}),
    ],
)
def test_variants_of_a_gguf_equal_llama_cpp(
    name: str, options: dict[str, Any], tmp_path: Path, llama_cpp: Any
) -> None:
    path, ids = TINY[name].write_gguf(tmp_path / "variant.gguf", **options), fresh_tokens(name)
    with llama_cpp.Model(path) as oracle:
        truth = oracle.logits(ids)
    assert error(junto.load(path, backend="reference").logits(ids), truth) < LLAMA_CPP_BOUND


@pytest.mark.parametrize("name", MODELS)
def test_transformers_and_llama_cpp_agree(
    name: str, tmp_path: Path, transformers: Any, llama_cpp: Any
) -> None:
    """The conversion of the tiny models is right; gpt-oss's YaRN range is rounded for both."""
    tiny, ids = TINY[name], fresh_tokens(name)
    rounded = True if tiny.config["model_type"] == "gpt_oss" else None
    model = transformers.load(tiny.write_safetensors(tmp_path), yarn_truncate=rounded)
    path = tiny.write_gguf(tmp_path / f"{name}.gguf", dequantized=True)
    with llama_cpp.Model(path) as oracle:
        apart = error(oracle.logits(ids), transformers.logits(model, ids))
    assert apart < (GPT2_BOUND if name == "gpt2" else ORACLES_BOUND)


@pytest.mark.parametrize("name", MODELS)
def test_the_first_token_moves_the_last_logits(
    name: str, tmp_path: Path, transformers: Any
) -> None:
    """Otherwise a model could forget its past and pass."""
    model = transformers.load(TINY[name].write_safetensors(tmp_path))
    ids = fresh_tokens(name)
    changed = np.concatenate([(ids[:1] + 1) % TINY[name].n_vocab, ids[1:]])
    rows = [transformers.logits(model, tokens_)[-1:] for tokens_ in (ids, changed)]
    assert error(rows[1], rows[0]) > 20 * LLAMA_CPP_BOUND


@pytest.mark.parametrize("name", MODELS)
def test_transformers_computes_its_goldens(name: str, tmp_path: Path, transformers: Any) -> None:
    golden = goldens.load("transformers", TINY[name].golden)
    model = transformers.load(TINY[name].write_safetensors(tmp_path))
    logits = transformers.logits(model, golden.tokens[:130])
    assert goldens.error_at(golden, 130, logits) < ORACLES_BOUND


@pytest.mark.parametrize("name", [*MODELS, *MIXES])
def test_llama_cpp_computes_its_goldens(name: str, tmp_path: Path, llama_cpp: Any) -> None:
    path = tmp_path / f"{name}.gguf"
    if name in MIXES:
        MIXES[name].write_twin(path)
    else:
        TINY[name].write_gguf(path, dequantized=True)
    golden = goldens.load("llama_cpp", name)
    with llama_cpp.Model(path) as oracle:
        logits = oracle.logits(golden.tokens[:130])
    assert goldens.error_at(golden, 130, logits) < ORACLES_BOUND


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_LAYERS)
def test_transformers_computes_its_goldens_of_real_layers(name: str, transformers: Any) -> None:
    from tests.oracle import real_layers

    layer = REAL_LAYERS[name]
    now, golden = real_layers.run(layer), layer.golden()
    for rows, recorded in ((now.after_mix, golden.after_mix), (now.out, golden.out)):
        assert np.abs(rows - recorded).max() < ORACLES_BOUND * golden.scale


@pytest.mark.slow
def test_smollm2_equals_llama_cpp_on_its_twin(tmp_path: Path, llama_cpp: Any) -> None:
    """A trained model, one prompt: logits after each token."""
    from tests.oracle import smollm2 as oracle_script

    path = smollm2.model_path()
    with llama_cpp.Model(oracle_script.write_twin(path, tmp_path / "twin.gguf")) as oracle:
        ids = np.array(oracle.tokenize(oracle_script.PROMPTS[3] * 8), np.int64)
        truth = oracle.logits(ids)
    assert len(ids) > 128
    assert error(junto.load(path, backend="reference").logits(ids), truth) < LLAMA_CPP_BOUND
