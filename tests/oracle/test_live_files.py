"""Files that junto writes, loaded by transformers and llama.cpp: the logits are the goldens."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from junto.formats.gguf import read_gguf
from junto.formats.gguf_split_writer import split_gguf
from junto.formats.gguf_writer import OutTensor, write_gguf
from junto.formats.safetensors import read_safetensors
from junto.formats.safetensors_writer import write_safetensors
from tests.tiny import goldens
from tests.tiny.models import MIXES, TINY

pytestmark = [
    pytest.mark.oracle,
    # the oracles' own warnings are not ours to mend
    pytest.mark.filterwarnings("default"),
]

BOUND = 5e-5
"""Largest error over the largest |logit|; a wrong byte is orders above it."""

LLAMA_CPP = ["qwen35moe_ratio2", "gpt_oss_mxfp4", "llama_untied", "qwen35moe_q4_k"]
TRANSFORMERS = ["qwen35moe_ratio2", "gpt_oss_mxfp4", "llama_untied"]


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("tests.oracle.transformers_oracle")


@pytest.fixture(scope="module")
def llama_cpp() -> Any:
    return pytest.importorskip("tests.oracle.llama_cpp_oracle")


def source(name: str, folder: Path) -> Path:
    """The float32 file whose logits the golden of llama.cpp holds."""
    if name in MIXES:
        return MIXES[name].write_twin(folder / "source.gguf")
    return TINY[name].write_gguf(folder / "source.gguf", dequantized=True)


def llama_cpp_error(name: str, path: Path, oracle: Any) -> float:
    golden = goldens.load("llama_cpp", name)
    n = 130
    with oracle.Model(path) as model:
        return goldens.error_at(golden, n, model.logits(golden.tokens[:n]))


@pytest.mark.parametrize("name", LLAMA_CPP)
def test_llama_cpp_computes_the_golden_of_a_gguf_we_wrote(
    name: str, tmp_path: Path, llama_cpp: Any
) -> None:
    file = read_gguf(source(name, tmp_path))
    # Another order and alignment, so that it is no copy of the file.
    tensors = [OutTensor.copy(tensor) for tensor in reversed(list(file.tensors.values()))]
    path = tmp_path / "ours.gguf"
    write_gguf(path, {"general.alignment": 64, **file.stored}, tensors)
    assert llama_cpp_error(name, path, llama_cpp) < BOUND


@pytest.mark.parametrize("max_shard_bytes", [1 << 30, 200_000])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_computes_the_golden_of_a_checkpoint_we_wrote(
    name: str, max_shard_bytes: int, tmp_path: Path, transformers: Any
) -> None:
    original = TINY[name].write_safetensors(tmp_path / "source")
    tensors = [OutTensor.copy(t) for t in read_safetensors(original).tensors.values()]
    (tmp_path / "ours").mkdir()
    shutil.copy(original / "config.json", tmp_path / "ours")
    files = write_safetensors(tmp_path / "ours", tensors, {"format": "pt"}, max_shard_bytes)
    assert (len(files) > 1) == (max_shard_bytes == 200_000)
    golden = goldens.load("transformers", TINY[name].golden)
    logits = transformers.logits(transformers.load(tmp_path / "ours"), golden.tokens[:130])
    assert goldens.error_at(golden, 130, logits) < BOUND


@pytest.mark.parametrize("options", [{"n_part": 3}, {"max_bytes": 150_000}])
def test_llama_cpp_computes_the_golden_of_parts_we_wrote(
    options: dict[str, Any], tmp_path: Path, llama_cpp: Any
) -> None:
    name = "llama_untied"
    parts = split_gguf(source(name, tmp_path), tmp_path / "ours", **options)
    assert len(parts) > 2
    assert llama_cpp_error(name, parts[0], llama_cpp) < BOUND
