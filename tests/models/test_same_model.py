"""One model in different files is one model: the same logits, and notes for what is left unused."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from junto.errors import RequestError
from junto.formats.tensor import Tensor
from junto.ops.contract import Weight
from junto.ops.reference.matrices import stored
from tests.models.running import error, feed, logits, running
from tests.tiny.gguf_metadata import architecture, metadata
from tests.tiny.gguf_writer import GGUFTensor, Packed, write_gguf
from tests.tiny.models import TINY, Draft, TinyModel
from tests.tiny.safetensors_writer import write_folder
from tests.tiny.weights import text_config

BOUND = 1e-5
"""Of the largest |logit|: exp(A_log) is taken in float32 here and in float64 by the writer."""
N_TOK = 140
FUSED = [name for name, tiny in TINY.items() if "num_experts" in text_config(tiny.config)]
TIED = ["qwen35moe_ratio4", "llama_tied", "qwen3", "qwen35"]


def write_tensors(tiny: TinyModel, path: Path, tensors: Mapping[str, GGUFTensor]) -> Path:
    """A GGUF of the model's metadata and of other tensors."""
    write_gguf(path, architecture(tiny.config), metadata(tiny.config), tensors)
    return path


@pytest.mark.parametrize("name", TINY)
def test_gguf_equals_safetensors(name: str, tmp_path: Path) -> None:
    tiny = TINY[name]
    ids = tiny.tokens(N_TOK)
    gguf = logits(tiny.write_gguf(tmp_path / "model.gguf"), ids)
    assert error(gguf, logits(tiny.write_safetensors(tmp_path / "model"), ids)) < BOUND


@pytest.mark.parametrize("name", TINY)
def test_shards_equal_one_file(name: str, tmp_path: Path) -> None:
    tiny = TINY[name]
    ids = tiny.tokens(N_TOK)
    one = logits(tiny.write_safetensors(tmp_path / "one"), ids)
    three = logits(tiny.write_safetensors(tmp_path / "three", shards=3), ids)
    assert np.array_equal(one, three)


@pytest.mark.parametrize("name", FUSED)
def test_fused_gate_and_up_equal_separate_ones(name: str, tmp_path: Path) -> None:
    tiny = TINY[name]
    ids = tiny.tokens(N_TOK)
    split = logits(tiny.write_gguf(tmp_path / "split.gguf"), ids)
    fused = logits(tiny.write_gguf(tmp_path / "fused.gguf", fuse_gate_up=True), ids)
    assert np.array_equal(split, fused)


def merged(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """One tensor an expert, stacked: gate rows, then up rows."""
    out = {name: values for name, values in tensors.items() if ".experts." not in name}
    stems = {name.split(".experts.")[0] + ".experts" for name in tensors if ".experts." in name}
    for stem in stems:
        n_expert = sum(bool(re.fullmatch(rf"{re.escape(stem)}\.\d+\.up.*", n)) for n in tensors)
        gate, up, down = (
            np.stack([tensors[f"{stem}.{e}.{part}_proj.weight"] for e in range(n_expert)])
            for part in ("gate", "up", "down")
        )
        out[f"{stem}.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        out[f"{stem}.down_proj"] = down
    return out


def test_experts_one_by_one_equal_merged_ones_in_safetensors(tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio4"]
    one_by_one = logits(tiny.write_safetensors(tmp_path / "one by one"), tiny.tokens(N_TOK))
    write_folder(tmp_path / "merged", tiny.config, merged(tiny.hf_tensors()))
    assert np.array_equal(logits(tmp_path / "merged", tiny.tokens(N_TOK)), one_by_one)


def test_experts_one_by_one_equal_merged_ones_in_gguf(tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio2"]
    whole = logits(tiny.write_gguf(tmp_path / "merged.gguf"), tiny.tokens(N_TOK))
    tensors: dict[str, GGUFTensor] = {}
    for name, values in tiny.gguf_tensors().items():
        if "_exps.weight" in name and not isinstance(values, Packed):
            single = name.replace("_exps.weight", ".{}.weight")
            tensors |= {single.format(e): expert for e, expert in enumerate(values)}
        else:
            tensors[name] = values
    path = write_tensors(tiny, tmp_path / "one by one.gguf", tensors)
    assert np.array_equal(logits(path, tiny.tokens(N_TOK)), whole)


@pytest.mark.parametrize("name", [*TIED, "gpt2"])
def test_tied_head_equals_a_head_of_the_same_values(name: str, tmp_path: Path) -> None:
    tiny = TINY[name]
    tied = logits(tiny.write_gguf(tmp_path / "tied.gguf"), tiny.tokens(N_TOK))
    tensors = tiny.gguf_tensors()
    both = {**tensors, "output.weight": tensors["token_embd.weight"]}
    path = write_tensors(tiny, tmp_path / "untied.gguf", both)
    assert np.array_equal(logits(path, tiny.tokens(N_TOK)), tied)
    other = {**tensors, "output.weight": tensors["token_embd.weight"][::-1]}  # type: ignore[index]
    path = write_tensors(tiny, tmp_path / "other.gguf", other)
    assert np.array_equal(logits(path, tiny.tokens(N_TOK))[:, ::-1], tied)


@pytest.mark.parametrize("name", TIED)
def test_head_beside_a_tied_embedding_is_left_alone(name: str, tmp_path: Path) -> None:
    """config.json decides, however early or late the tensor turns up."""
    tiny = TINY[name]
    tied = logits(tiny.write_safetensors(tmp_path / "tied"), tiny.tokens(N_TOK))
    tensors = tiny.hf_tensors()
    shape = tensors["model.embed_tokens.weight"].shape
    both = {"lm_head.weight": np.ones(shape, np.float32), **tensors}
    write_folder(tmp_path / "both", tiny.config, both)
    runner, blueprint, _ = running(tmp_path / "both")
    rows = feed(runner, runner.cache.open(), tiny.tokens(N_TOK))
    assert np.array_equal(rows, tied)
    assert blueprint.notes == ("both: 1 tensor not used: the head is tied to the embedding",)


def test_qwen3next_of_old_files_equals_that_of_new_ones(tmp_path: Path) -> None:
    """`ssm_in` keeps q, k, v and z of a key head together, as safetensors do."""
    tiny = TINY["qwen3next"]
    new = logits(tiny.write_gguf(tmp_path / "new.gguf"), tiny.tokens(N_TOK))
    tensors, hf = tiny.gguf_tensors(), tiny.hf_tensors()
    for i in (0, 1, 3):
        del tensors[f"blk.{i}.attn_qkv.weight"], tensors[f"blk.{i}.attn_gate.weight"]
        fused = hf[f"model.layers.{i}.linear_attn.in_proj_qkvz.weight"]
        tensors[f"blk.{i}.ssm_in.weight"] = fused
    old = write_tensors(tiny, tmp_path / "old.gguf", tensors)
    assert np.array_equal(logits(old, tiny.tokens(N_TOK)), new)


def test_gpt2_as_first_published_equals_that_of_today(tmp_path: Path) -> None:
    """Names without "transformer.", and the causal mask among the tensors."""
    tiny = TINY["gpt2"]
    tensors = {n.removeprefix("transformer."): t for n, t in tiny.hf_tensors().items()}
    mask = np.tril(np.ones((1, 1, 16, 16), np.float32))
    tensors |= {f"h.{i}.attn.bias": mask for i in range(3)}
    write_folder(tmp_path / "old", tiny.config, tensors)
    runner, blueprint, _ = running(tmp_path / "old")
    whole = logits(tiny.write_safetensors(tmp_path / "new"), tiny.tokens(N_TOK))
    assert np.array_equal(feed(runner, runner.cache.open(), tiny.tokens(N_TOK)), whole)
    assert blueprint.notes == (
        "old: 3 tensors not used: the causal mask, which attention has of itself",
    )


def test_gpt2_takes_no_more_tokens_than_it_has_positions(tmp_path: Path) -> None:
    runner = running(TINY["gpt2"].write_gguf(tmp_path / "m.gguf"), n_ctx=5000).runner
    ids = TINY["gpt2"].tokens(1025).tolist()
    slot = runner.cache.open()
    feed(runner, slot, ids[:1024])
    with pytest.raises(RequestError, match=r"1,024"):
        runner.step([(slot, ids[1024:])])


NONE = "m.gguf: its metadata promises a draft head that the file does not hold; running without"
SHIPPED = "m.gguf: 20 tensors not used: the draft head (speculative decoding is not built yet)"


@pytest.mark.parametrize(
    ("draft", "notes"), [("none", ()), ("shipped", (SHIPPED,)), ("only in metadata", (NONE,))]
)
def test_draft_head_changes_nothing_and_is_told(
    draft: Draft, notes: tuple[str, ...], tmp_path: Path
) -> None:
    tiny = TINY["qwen35moe_ratio2"]
    runner, blueprint, _ = running(tiny.write_gguf(tmp_path / "m.gguf", draft=draft))
    assert blueprint.notes == notes
    assert blueprint.cfg.n_layer == 4
    rows = feed(runner, runner.cache.open(), tiny.tokens(N_TOK))
    plain = logits(tiny.write_gguf(tmp_path / "plain.gguf"), tiny.tokens(N_TOK))
    assert np.array_equal(rows, plain)


def test_draft_head_that_only_config_json_knows_is_told(tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio2"]
    tensors = {n: t for n, t in tiny.hf_tensors().items() if not n.startswith("mtp.")}
    write_folder(tmp_path / "m", tiny.config, tensors)
    runner, blueprint, _ = running(tmp_path / "m")
    assert blueprint.notes == (
        "m: 3 tensors not used: the vision tower (text only)",
        "m: its metadata promises a draft head that the file does not hold; running without",
    )
    rows = feed(runner, runner.cache.open(), tiny.tokens(N_TOK))
    assert np.array_equal(
        rows, logits(tiny.write_safetensors(tmp_path / "full"), tiny.tokens(N_TOK))
    )


def test_text_model_alone_equals_the_multimodal_wrapper(tmp_path: Path) -> None:
    """`model.` and a flat config against `model.language_model.` and `text_config`."""
    tiny = TINY["qwen35moe_ratio2"]
    config = {
        **tiny.config["text_config"],
        "architectures": ["Qwen3_5MoeForCausalLM"],
        "tie_word_embeddings": False,
    }
    tensors = {
        name.replace("model.language_model.", "model."): values
        for name, values in tiny.hf_tensors().items()
        if "visual" not in name
    }
    write_folder(tmp_path / "text", config, tensors)
    whole = logits(tiny.write_safetensors(tmp_path / "full"), tiny.tokens(N_TOK))
    assert np.array_equal(logits(tmp_path / "text", tiny.tokens(N_TOK)), whole)


def test_mxfp4_checkpoint_equals_its_dequantised_twin(tmp_path: Path) -> None:
    """Blocks, scales and bf16 against transposed float32 of the same values."""
    packed, twin = TINY["gpt_oss_mxfp4"], TINY["gpt_oss_mxfp4_twin"]
    blocks = logits(packed.write_safetensors(tmp_path / "blocks"), packed.tokens(N_TOK))
    plain = logits(twin.write_safetensors(tmp_path / "plain"), packed.tokens(N_TOK))
    assert error(blocks, plain) < 1e-6


@pytest.mark.parametrize("form", ["safetensors", "gguf"])
def test_mxfp4_experts_stay_packed_in_memory(form: str, tmp_path: Path) -> None:
    tiny = TINY["gpt_oss_mxfp4"]
    write = tiny.write_safetensors if form == "safetensors" else tiny.write_gguf
    runner, _, weights = running(write(tmp_path / "m.gguf"))
    feed(runner, runner.cache.open(), tiny.tokens(N_TOK))
    for layer in weights.layers:
        for part in (layer.ffn_gate_exps, layer.ffn_up_exps, layer.ffn_down_exps):
            held = stored(part)
            experts = [held.tensor[e] for e in range(part.shape[0])]
            assert {expert.type.name for expert in experts} == {"MXFP4"}
            assert held.decoded is None


@pytest.mark.parametrize("name", TINY)
def test_matrices_are_taken_as_stored_and_vectors_as_float32(name: str, tmp_path: Path) -> None:
    weights = running(TINY[name].write_gguf(tmp_path / "m.gguf")).weights
    for holder in (weights.whole, *weights.layers):
        for field in dataclasses.fields(holder):
            value = getattr(holder, field.name)
            if isinstance(value, Weight):
                tensor = stored(value).tensor
                assert isinstance(tensor, Tensor)
                assert tensor.shape == value.shape
            elif value is not None:
                assert value.dtype == np.float32
