"""Logits of tiny random models against transformers and llama.cpp on the same weights.

The goldens in tests/golden come from the oracles alone: `python -m tests.oracle.make_goldens`.
Quantised files are compared with llama.cpp on the file's dequantised float32 twin, where it uses
float activations as the reference does.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import junto
from junto.models.loading import Blueprint, locate, open_file
from junto.ops.reference import Reference
from junto.ops.views import F32
from tests.tiny import goldens
from tests.tiny.models import MIXES, TINY

TRANSFORMERS_BOUND = 2e-4
LLAMA_CPP_BOUND = 5e-4
"""Largest error over the largest |logit|; both sides sum float32 in other orders."""


def rounded_yarn(blueprint: Blueprint) -> Blueprint:
    """The model llama.cpp computes for gpt-oss: the ends of YaRN's ramp rounded outwards."""
    cfg = blueprint.cfg
    if not hasattr(cfg, "yarn"):
        return blueprint
    yarn = dataclasses.replace(cfg.yarn, round_range=True)
    return dataclasses.replace(blueprint, cfg=dataclasses.replace(cfg, yarn=yarn))


def load_as_llama_cpp(path: Path) -> junto.Model:
    """Load a GGUF with llama.cpp's reading of YaRN."""
    return junto.assembly.assemble(rounded_yarn(locate(open_file(path))), Reference())


@pytest.mark.parametrize("name", TINY)
def test_safetensors_equal_transformers(name: str, tmp_path: Path) -> None:
    tiny = TINY[name]
    model = junto.load(tiny.write_safetensors(tmp_path / name), backend="reference")
    errors = goldens.errors(goldens.load("transformers", tiny.golden), model.logits)
    assert max(errors.values()) < TRANSFORMERS_BOUND, errors


@pytest.mark.parametrize("name", TINY)
def test_gguf_equals_transformers(name: str, tmp_path: Path) -> None:
    tiny = TINY[name]
    model = junto.load(tiny.write_gguf(tmp_path / f"{name}.gguf"), backend="reference")
    errors = goldens.errors(goldens.load("transformers", tiny.golden), model.logits)
    assert max(errors.values()) < TRANSFORMERS_BOUND, errors


@pytest.mark.parametrize("name", TINY)
def test_gguf_equals_llama_cpp(name: str, tmp_path: Path) -> None:
    tiny = TINY[name]
    model = load_as_llama_cpp(tiny.write_gguf(tmp_path / f"{name}.gguf"))
    errors = goldens.errors(goldens.load("llama_cpp", tiny.golden), model.logits)
    assert max(errors.values()) < LLAMA_CPP_BOUND, errors


class RoundedGelu(Reference):
    """The reference with llama.cpp's GELU on processors: a table from float16 to float16."""

    def gelu(self, x: F32) -> F32:
        """GELU of x rounded to float16, rounded to float16."""
        y = Reference.gelu(x.astype(np.float16).astype(np.float32)).astype(np.float16)
        return y.astype(np.float32)


def test_gpt2_differs_from_llama_cpp_by_its_table_of_gelu_alone(tmp_path: Path) -> None:
    """One token, so that no value lies where float32's noise moves its rounding."""
    tiny = TINY["gpt2"]
    blueprint = locate(open_file(tiny.write_gguf(tmp_path / "gpt2.gguf")))
    golden = goldens.load("llama_cpp", tiny.golden)
    exact, rounded = (
        goldens.error_at(
            golden, 1, junto.assembly.assemble(blueprint, ops).logits(golden.tokens[:1])
        )
        for ops in (Reference(), RoundedGelu())
    )
    assert exact > 20 * rounded
    assert rounded < 2e-6


@pytest.mark.parametrize("name", MIXES)
def test_quantised_gguf_equals_llama_cpp_on_its_twin(name: str, tmp_path: Path) -> None:
    model = load_as_llama_cpp(MIXES[name].write_gguf(tmp_path / f"{name}.gguf"))
    errors = goldens.errors(goldens.load("llama_cpp", name), model.logits)
    assert max(errors.values()) < LLAMA_CPP_BOUND, errors


def test_yarn_is_not_rounded_unless_asked(tmp_path: Path) -> None:
    """llama.cpp's rounding is another model: far from the publisher's at 130 tokens."""
    tiny = TINY["gpt_oss_window128"]
    rounded = load_as_llama_cpp(tiny.write_gguf(tmp_path / "rounded.gguf"))
    golden = goldens.load("transformers", tiny.golden)
    assert goldens.error_at(golden, 130, rounded.logits(golden.tokens[:130])) > 1e-2
