"""MXFP4 to a folder of bfloat16 safetensors, from the publisher's files and from a GGUF."""

import json
from pathlib import Path

import numpy as np
import pytest

from junto.convert import Wishes, convert
from junto.errors import DiskError, ModelError, RequestError
from junto.formats.safetensors import read_safetensors
from junto.text import load_text
from tests.convert.folders import write_folder
from tests.models.running import error, logits
from tests.tiny.models import TINY

TINY_MODEL = TINY["gpt_oss_mxfp4"]


def source(kind: str, folder: Path) -> Path:
    checkpoint = write_folder(TINY_MODEL, folder / "source")
    if kind == "safetensors":
        return checkpoint
    convert(checkpoint, folder / "source.gguf", Wishes())
    return folder / "source.gguf"


@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
def test_tensors_are_those_of_the_bf16_form(kind: str, tmp_path: Path) -> None:
    convert(source(kind, tmp_path), tmp_path / "bf16", Wishes(type="BF16"))
    made = read_safetensors(tmp_path / "bf16")
    expected = read_safetensors(TINY["gpt_oss_mxfp4_twin"].write_safetensors(tmp_path / "twin"))
    assert set(made.tensors) == set(expected.tensors)
    for name, tensor in expected.tensors.items():
        assert made.tensors[name].type.name == "BF16"
        assert made.tensors[name].shape == tensor.shape
        assert np.array_equal(made.tensors[name].float32(), tensor.float32()), name
    assert "quantization_config" not in made.config
    assert made.config["dtype"] == "bfloat16"


@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
def test_model_and_tokenizer_are_the_same(kind: str, tmp_path: Path) -> None:
    original = source(kind, tmp_path)
    convert(original, tmp_path / "bf16", Wishes(type="BF16"))
    ids = TINY_MODEL.tokens(70)
    assert error(logits(tmp_path / "bf16", ids), logits(original, ids)) < 5e-6
    ours, theirs = load_text(tmp_path / "bf16"), load_text(original)
    assert ours.encode("to tot") == theirs.encode("to tot") != []
    assert ours.tokenizer.eos_ids == theirs.tokenizer.eos_ids
    assert ours.tokenizer.chat_template == theirs.tokenizer.chat_template


def test_config_from_a_gguf_is_the_publishers_without_quantisation(tmp_path: Path) -> None:
    convert(source("gguf", tmp_path), tmp_path / "bf16", Wishes())
    made = json.loads((tmp_path / "bf16" / "config.json").read_text())
    theirs = dict(TINY_MODEL.config)
    del theirs["quantization_config"]
    made["rms_norm_eps"] = round(made["rms_norm_eps"], 9)
    assert made == {**theirs, "dtype": "bfloat16"}


def test_wishes_that_only_a_gguf_meets_are_refused(tmp_path: Path) -> None:
    folder = source("safetensors", tmp_path)
    with pytest.raises(RequestError, match=r"'Q4_K' cannot be written to safetensors"):
        convert(folder, tmp_path / "out", Wishes(type="Q4_K"))
    with pytest.raises(RequestError, match=r"--keep is for GGUF files"):
        convert(folder, tmp_path / "out", Wishes(keep=(("attn_v", "F16"),)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_architectures_without_a_way_back_are_refused(tmp_path: Path) -> None:
    path = TINY["llama_tied"].write_gguf(tmp_path / "m.gguf")
    with pytest.raises(ModelError, match=r"m\.gguf: .*cannot write"):
        convert(path, tmp_path / "out", Wishes())
    assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"]


def test_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    folder = source("safetensors", tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("")
    for force in (False, True):
        with pytest.raises(DiskError, match="exists already"):
            convert(folder, tmp_path / "out", Wishes(force=force))
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["precious"]
