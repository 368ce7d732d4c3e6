"""What a model file must not be: each fault gets one line that says what, where and what was due.

Files are made in memory from tiny models, so a test also shows that no weight was read before the
fault was found.
"""

import base64
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import junto
from junto.errors import JuntoError, ModelError
from junto.models.architecture import architectures
from junto.models.loading import locate, open_file, take
from junto.ops.reference import Reference
from tests.data_dir import find
from tests.models.fakes import (
    ONE_EACH,
    checkpoint,
    gguf,
    gguf_file,
    lazy,
    plus,
    refusal,
    renamed,
    tiny_checkpoint,
    tiny_gguf,
    without,
)
from tests.tiny.models import TINY

Json = dict[str, Any]

QWEN, GPT_OSS, LLAMA = (ONE_EACH[name] for name in ("qwen35moe", "gpt-oss", "llama"))


def test_every_architecture_is_covered_here() -> None:
    assert {name for a in architectures() for name in a.ARCHITECTURES.gguf} == set(ONE_EACH)


@pytest.mark.parametrize("name", ONE_EACH)
class TestTensors:
    """What holds for the tensors of every architecture."""

    def test_every_tensor_that_is_missing_is_named(self, name: str) -> None:
        may_lack = {"output.weight", "rope_freqs.weight"} if name != "gpt-oss" else set()
        for file in (tiny_gguf(ONE_EACH[name]), tiny_checkpoint(ONE_EACH[name])):
            for tensor in set(file.tensors) - may_lack:
                message = refusal(without(file, tensor))
                assert message.startswith(f"{file.path}: tensor ")
                assert message.endswith(" is missing")
                assert repr(tensor.replace(".experts.0.", ".experts.{e}.")) in message or (
                    repr(tensor) in message
                )

    def test_every_tensor_of_another_shape_is_named(self, name: str) -> None:
        tiny = ONE_EACH[name]
        for file in (tiny_gguf(tiny), tiny_checkpoint(tiny)):
            for tensor in file.tensors.values():
                shape = (*tensor.shape[:-1], tensor.shape[-1] + 1)
                message = refusal(plus(file, renamed(tensor, shape=shape)))
                if tensor.name == "token_embd.weight":
                    assert f"shape {shape}, expected {tensor.shape} = (n_vocab, n_embd)" in message
                start = f"{tensor.source}: tensor {tensor.name!r} has shape {shape}, expected "
                assert message.startswith(f"{start}{tensor.shape} = (")

    def test_tensor_with_an_axis_too_many_is_refused(self, name: str) -> None:
        file = tiny_gguf(ONE_EACH[name])
        norm = file.tensors["output_norm.weight"]
        message = refusal(plus(file, renamed(norm, shape=(1, *norm.shape))))
        assert f"has shape (1, {norm.shape[0]}), expected {norm.shape} = (n_embd)" in message

    def test_tensors_too_many_are_named_and_counted(self, name: str) -> None:
        tiny = ONE_EACH[name]
        unknown = "tensors this architecture does not know"
        one = refusal(plus(tiny_gguf(tiny), lazy("blk.0.attn_quirk.weight", (3,))))
        assert one == f"fake.gguf: {unknown}: 'blk.0.attn_quirk.weight'"
        many = [lazy(f"{letter}.weight", (3,)) for letter in "edcba"]
        five = refusal(plus(tiny_gguf(tiny), *many))
        assert five == f"fake.gguf: {unknown}: 'a.weight', 'b.weight', 'c.weight' and 2 more"
        hf = refusal(plus(tiny_checkpoint(tiny), lazy("model.layers.0.extra", (3,))))
        assert hf == f"model.safetensors: {unknown}: 'model.layers.0.extra'"

    def test_a_layer_beyond_the_last_is_too_many(self, name: str) -> None:
        file = tiny_gguf(ONE_EACH[name])
        norm = file.tensors["blk.0.attn_norm.weight"]
        message = refusal(plus(file, renamed(norm, name="blk.77.attn_norm.weight")))
        assert message.endswith("does not know: 'blk.77.attn_norm.weight'")

    def test_names_of_any_length_fit_in_the_message(self, name: str) -> None:
        tiny = ONE_EACH[name]
        long = [lazy(f"{i}" + "x" * 5000, (3,)) for i in range(9)]
        assert refusal(plus(tiny_checkpoint(tiny), *long)).endswith("and 6 more")


@pytest.mark.parametrize(
    ("name", "tensor", "shape", "message"),
    [
        (
            "qwen35moe",
            "blk.3.attn_q.weight",
            (144, 56),
            "fake.gguf: tensor 'blk.3.attn_q.weight' has shape (144, 56), "
            "expected (288, 56) = (2*n_head*head_dim, n_embd)",
        ),
        (
            "qwen35moe",
            "blk.0.ssm_conv1d.weight",
            (240, 3),
            "fake.gguf: tensor 'blk.0.ssm_conv1d.weight' has shape (240, 3), "
            "expected (240, 4) = (n_channel, n_tap)",
        ),
        (
            "gpt-oss",
            "blk.2.ffn_down_exps.bias",
            (7, 61),
            "fake.gguf: tensor 'blk.2.ffn_down_exps.bias' has shape (7, 61), "
            "expected (7, 60) = (n_expert, n_embd)",
        ),
        (
            "llama",
            "blk.1.attn_k.weight",
            (72, 56),
            "fake.gguf: tensor 'blk.1.attn_k.weight' has shape (72, 56), "
            "expected (36, 56) = (n_head_kv*head_dim, n_embd)",
        ),
    ],
)
def test_message_tells_the_shape_in_terms_of_the_config(
    name: str, tensor: str, shape: tuple[int, ...], message: str
) -> None:
    assert refusal(plus(tiny_gguf(ONE_EACH[name]), lazy(tensor, shape, source="fake.gguf"))) == (
        message
    )


def test_every_place_that_was_searched_is_named() -> None:
    assert refusal(without(tiny_gguf(QWEN), "blk.1.ffn_up_exps.weight")) == (
        "fake.gguf: tensor 'blk.1.ffn_up_exps.weight' or 'blk.1.ffn_gate_up_exps.weight' or "
        "'blk.1.ffn_up.{e}.weight' is missing"
    )
    experts = "model.layers.1.mlp.experts"
    assert refusal(without(tiny_checkpoint(GPT_OSS), f"{experts}.down_proj")) == (
        f"model.safetensors: tensor '{experts}.down_proj_blocks' with '{experts}.down_proj_scales' "
        f"or '{experts}.down_proj' is missing"
    )


def test_expert_that_is_missing_among_others_is_named() -> None:
    lost = "model.layers.2.mlp.experts.5.down_proj.weight"
    assert refusal(without(tiny_checkpoint(TINY["qwen35moe_ratio4"]), lost)) == (
        f"model.safetensors: tensor '{lost}' is missing"
    )


def test_scales_that_are_missing_beside_their_blocks_are_named() -> None:
    lost = "model.layers.1.mlp.experts.gate_up_proj_scales"
    assert refusal(without(tiny_checkpoint(TINY["gpt_oss_mxfp4"]), lost)) == (
        f"model.safetensors: tensor '{lost}' is missing"
    )


def test_both_merged_and_fused_experts_are_too_many() -> None:
    file = tiny_gguf(QWEN)
    fused = lazy("blk.0.ffn_gate_up_exps.weight", (7, 72, 56))
    assert refusal(plus(file, fused)).endswith("not know: 'blk.0.ffn_gate_up_exps.weight'")


def test_mxfp4_blocks_that_are_no_bytes_are_refused() -> None:
    """Their shapes are right, so nothing but the type tells; it used to fail on the first token."""
    file = tiny_checkpoint(TINY["gpt_oss_mxfp4"])
    name = "model.layers.0.mlp.experts.down_proj_blocks"
    assert refusal(plus(file, renamed(file.tensors[name], type_name="BF16"))) == (
        f"model.safetensors: tensor '{name}' is BF16, expected bytes (U8)"
    )


KNOWN_GGUF, KNOWN_HF = (
    "gpt-oss, gpt2, llama, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next",
    "GPT2LMHeadModel, GptOssForCausalLM, LlamaForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, "
    "Qwen3NextForCausalLM, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, "
    "Qwen3_5MoeForCausalLM, Qwen3_5MoeForConditionalGeneration",
)
TO_ADD = "To add one, see docs/add-a-model.md."


def test_unknown_architecture_lists_the_known_ones() -> None:
    assert refusal(gguf_file("mamba2", {}, [])) == (
        f"fake.gguf: 'general.architecture' is 'mamba2'; this build reads: {KNOWN_GGUF}. {TO_ADD}"
    )
    assert refusal(checkpoint({"architectures": ["Mamba2ForCausalLM"]}, [])) == (
        f"config.json: 'architectures' is 'Mamba2ForCausalLM'; this build reads: {KNOWN_HF}. "
        f"{TO_ADD}"
    )
    assert "this build reads" in refusal(gguf_file("m" * 60000, {}, []))


def test_ollamas_form_of_gpt_oss_says_where_the_common_one_is() -> None:
    assert refusal(gguf_file("gptoss", {}, [])) == (
        "fake.gguf: 'general.architecture' is 'gptoss', Ollama's own form of gpt-oss, whose "
        "tensors bear other names; fetch the common one: junto pull gpt-oss:20b"
    )


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (None, "None"),
        ([], "[]"),
        ("LlamaForCausalLM", "'LlamaForCausalLM'"),
        (["A", "B"], "['A', 'B']"),
        ([3], "[3]"),
    ],
)
def test_architectures_must_be_one_name(names: object, shown: str) -> None:
    config = {"hidden_size": 1} if names is None else {"architectures": names}
    assert refusal(checkpoint(config, [])) == (
        f"config.json: 'architectures' is {shown}, expected a list of one name"
    )


def test_missing_config_json_is_told(tmp_path: Path) -> None:
    folder = QWEN.write_safetensors(tmp_path / "model")
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"model: no config\.json beside the tensors"):
        junto.load(folder)


def test_config_json_of_a_folder_is_named_with_it(tmp_path: Path) -> None:
    folder = QWEN.write_safetensors(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({**QWEN.config, "hidden_act": "gelu"}))
    with pytest.raises(ModelError, match=r"^model/config\.json: 'hidden_act' is 'gelu', expected"):
        junto.load(folder)


def test_path_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing\.gguf: no such file or folder$"):
        open_file(tmp_path / "nothing.gguf")


def test_general_architecture_must_be_a_name() -> None:
    for value, shown in ((None, "None"), (7, "7"), (["llama"], "['llama']")):
        file = gguf({"general.architecture": value} if value else {}, tiny_gguf(LLAMA))
        assert refusal(file) == f"fake.gguf: 'general.architecture' is {shown}, expected a name"


@pytest.mark.parametrize("tokens", [7, "tok", np.arange(9)])
def test_vocabulary_that_is_no_list_of_strings_is_refused(tokens: Any) -> None:
    """A number raised a TypeError, and a string counted as a vocabulary of its letters."""
    whole = tiny_gguf(LLAMA)
    keys = {**whole.metadata, "tokenizer.ggml.tokens": tokens}
    assert refusal(gguf(keys, whole)) == (
        "fake.gguf: 'tokenizer.ggml.tokens' is no list of strings"
    )


@pytest.mark.parametrize("n_token", [2, 210, 212])
@pytest.mark.parametrize("tiny", [QWEN, GPT_OSS, LLAMA], ids=lambda tiny: tiny.name)
def test_vocabulary_of_another_size_than_the_embedding_is_refused(tiny: Any, n_token: int) -> None:
    whole = tiny_gguf(tiny)
    n_row = whole.tensors["token_embd.weight"].shape[0]
    n_token += n_row - 211
    keys = {**whole.metadata, "tokenizer.ggml.tokens": [f"tok{i}" for i in range(n_token)]}
    assert refusal(gguf(keys, whole)) == (
        f"fake.gguf: 'tokenizer.ggml.tokens' has {n_token} tokens and 'token_embd.weight' {n_row} "
        "rows, expected as many; the file is broken, convert the model again"
    )


def test_file_without_vocabulary_and_embedding_is_refused() -> None:
    assert refusal(gguf_file("llama", {}, [])) == (
        "fake.gguf: neither a vocabulary nor a tensor 'token_embd.weight'"
    )


@pytest.mark.parametrize("tensor", ["blk.1.ffn_up_exps.weight", "blk.2.attn_k.weight"])
def test_type_that_cannot_be_decoded_is_refused_at_load(tensor: str, tmp_path: Path) -> None:
    """It was found only when the matrix was first used, in the middle of an answer."""
    file = open_file(TINY["qwen35moe_wide"].write_gguf(tmp_path / "wide.gguf"))
    bad = renamed(file.tensors[tensor], type_name="F8_E5M2")
    with pytest.raises(ModelError) as raised:
        take(locate(plus(file, bad)), Reference())
    assert str(raised.value).startswith(
        f"wide.gguf: tensor {tensor!r} is F8_E5M2; this build decodes: F64, F32, F16, BF16"
    )
    assert len(str(raised.value)) < 400


def reject_load_rows() -> list[Json]:
    rows = [json.loads(line) for line in find("gguf/malformed.jsonl").read_text().splitlines()]
    return [row for row in rows if row["expect"] == "reject-load"]


@pytest.mark.parametrize("row", reject_load_rows(), ids=lambda row: row["id"])
def test_sound_container_of_a_broken_model_is_refused(row: Json, tmp_path: Path) -> None:
    path = tmp_path / f"{row['id']}.gguf"
    path.write_bytes(base64.b64decode(row["b64"]))
    start = time.perf_counter()
    with pytest.raises(JuntoError, match=rf"^{path.name}: [^\n]+$") as raised:
        junto.load(path)
    assert time.perf_counter() - start < 1.0
    assert len(str(raised.value)) < 400
