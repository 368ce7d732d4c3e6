"""The tensor tables of the published models map completely, without a byte of their weights.

Names, shapes and counts are those of published files and loader logs. No table is published for the
122B and 397B models: theirs follow from their configs by the rules of the 35B table.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import pytest

from junto.formats.gguf import GGUFFile
from junto.formats.safetensors import Checkpoint
from junto.formats.tensor import Tensor
from junto.models import gpt_oss, qwen35moe
from junto.models.loading import Blueprint, locate
from tests.data_dir import find
from tests.models.fakes import checkpoint, gguf_file, lazy

Json = dict[str, Any]


def read_json(relative: str) -> Json:
    return cast(Json, json.loads(find(relative).read_text()))


def n_parameter(tensors: Iterable[Tensor]) -> int:
    return sum(math.prod(tensor.shape) for tensor in tensors)


def n_mapped(blueprint: Blueprint, layer: int) -> int:
    """Tensors of one layer; one an expert counts as one."""
    return sum(found is not None for found in blueprint.located.layers[layer].values())


def shape(blueprint: Blueprint, layer: int, field: str) -> tuple[int, ...]:
    found = blueprint.located.layers[layer][field]
    assert found is not None
    return found.shape if isinstance(found, Tensor) else (len(found), *found[0].shape)


def gpt_oss_checkpoint(size: str) -> Checkpoint:
    table = read_json("configs/gpt-oss.tensors.json")[f"gpt-oss-{size}"]
    entries = dict(table["global"])
    for i in range(table["n_layers"]):
        prefix = table["layer_prefix"].format(i=i)
        entries |= {prefix + name: entry for name, entry in table["per_layer"].items()}
    tensors = [lazy(name, dims, kind) for name, (kind, dims) in entries.items()]
    return checkpoint(read_json(f"configs/gpt-oss-{size}.config.json"), tensors)


GPT_OSS_SIZES = {
    "20b": {"n_layer": 24, "n_expert": 32},
    "120b": {"n_layer": 36, "n_expert": 128},
}
GPT_OSS_SHARED = {
    "n_embd": 2880,
    "n_vocab": 201088,
    "n_ctx_train": 131072,
    "n_head": 64,
    "n_head_kv": 8,
    "head_dim": 64,
    "window": 128,
    "rope_theta": 150000.0,
    "n_expert_used": 4,
    "n_ff_exp": 2880,
}


def check_gpt_oss(cfg: gpt_oss.Config, size: str) -> None:
    for field, value in {**GPT_OSS_SHARED, **GPT_OSS_SIZES[size]}.items():
        assert getattr(cfg, field) == value, field
    assert cfg.rms_eps == pytest.approx(1e-5)
    assert (cfg.yarn.factor, cfg.yarn.n_ctx_original) == (32.0, 4096)
    assert (cfg.yarn.beta_fast, cfg.yarn.beta_slow) == (32.0, 1.0)
    assert not cfg.yarn.round_range
    assert (cfg.swiglu.limit, cfg.swiglu.alpha) == (7.0, 1.702)
    assert cfg.is_sliding == tuple(i % 2 == 0 for i in range(cfg.n_layer))
    assert cfg.rotation.scale == pytest.approx(1.3466, abs=1e-4)


@pytest.mark.parametrize(
    ("size", "n_tensor", "n_bytes"), [("20b", 459, 13761264768), ("120b", 687, 65248815744)]
)
def test_published_gpt_oss_maps_in_full(size: str, n_tensor: int, n_bytes: int) -> None:
    file = gpt_oss_checkpoint(size)
    assert len(file.tensors) == n_tensor
    assert sum(tensor.n_bytes for tensor in file.tensors.values()) == n_bytes
    blueprint = locate(file)
    check_gpt_oss(blueprint.cfg, size)
    assert blueprint.notes == ()
    n_expert = GPT_OSS_SIZES[size]["n_expert"]
    assert shape(blueprint, 7, "ffn_gate_exps") == (n_expert, 2880, 2880)
    for field in ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"):
        found = blueprint.located.layers[7][field]
        assert isinstance(found, Sequence)
        assert {expert.type.name for expert in found} == {"MXFP4"}


def gguf_headers(name: str) -> Json:
    return cast(Json, read_json("gguf/real-headers.json")[name])


def parsed(kind: str, value: str) -> Any:
    """A metadata value as the reader gives it; only the number of a vocabulary's entries counts."""
    if value.startswith("<") and kind.startswith("arr"):
        return range(int(value.removeprefix("<").split()[0]))
    if kind.startswith("arr"):
        return json.loads(value)
    first = value.split(" ")[0]
    convert: Mapping[str, Callable[[str], Any]] = {"str": str, "bool": bool, "f32": float}
    return value if kind == "str" else convert.get(kind, int)(first)


def real_gguf(header: Json, *, keys: Mapping[str, Any] | None = None, draft: bool = False) -> Any:
    metadata = {kv["key"]: parsed(kv["type"], kv["value"]) for kv in header["kv"]}
    rows = list(header["tensors"])
    if draft:
        rows += [[n.replace("blk.39.", "blk.40."), *r] for n, *r in rows if n.startswith("blk.39.")]
        rows += header["mtp_block"]["extra"]
    types = {"q": "Q4_0", "f32": "F32", "q8_0": "Q8_0", "mxfp4": "MXFP4"}
    tensors = [lazy(name, reversed(dims), types[kind]) for name, kind, dims in rows]
    return gguf_file(metadata["general.architecture"], {**metadata, **(keys or {})}, tensors)


def test_real_gpt_oss_gguf_maps_in_full() -> None:
    file: GGUFFile = real_gguf(gguf_headers("gpt-oss-20b-MXFP4"))
    assert len(file.tensors) == 459
    blueprint = locate(file)
    check_gpt_oss(blueprint.cfg, "20b")
    assert blueprint.notes == ()
    assert [n_mapped(blueprint, i) for i in range(24)] == [19] * 24


QWEN_35B = {
    "n_layer": 40,
    "n_embd": 2048,
    "n_vocab": 248320,
    "n_ctx_train": 262144,
    "n_head": 16,
    "n_head_kv": 2,
    "head_dim": 256,
    "n_rot": 64,
    "rope_theta": 1e7,
    "n_expert": 256,
    "n_expert_used": 8,
    "n_ff_exp": 512,
    "n_ff_shexp": 512,
    "expert_weights_scale": 1.0,
    "ssm_state": 128,
    "ssm_n_head_k": 16,
    "ssm_n_head_v": 32,
    "ssm_inner": 4096,
    "n_tap": 4,
    "n_channel": 8192,
}
QWEN_122B = {
    **QWEN_35B,
    "n_layer": 48,
    "n_embd": 3072,
    "n_head": 32,
    "n_ff_exp": 1024,
    "n_ff_shexp": 1024,
    "ssm_n_head_v": 64,
    "ssm_inner": 8192,
    "n_channel": 12288,
}
QWEN_397B = {**QWEN_122B, "n_layer": 60, "n_embd": 4096, "n_expert": 512, "n_expert_used": 10}


def check_qwen(cfg: qwen35moe.Config, expected: Mapping[str, float]) -> None:
    for field, value in expected.items():
        assert getattr(cfg, field) == value, field
    assert cfg.rms_eps == pytest.approx(1e-6)
    assert cfg.is_attention == tuple(i % 4 == 3 for i in range(cfg.n_layer))
    assert len(cfg.rotation.inv_freq) == cfg.n_rot // 2


PROMISE = (
    "fake.gguf: its metadata promises a draft head that the file does not hold; running without"
)
SHIPPED = "fake.gguf: 20 tensors not used: the draft head (speculative decoding is not built yet)"
NEXTN = {"qwen35moe.block_count": 41, "qwen35moe.nextn_predict_layers": 1}


@pytest.mark.parametrize(
    ("keys", "draft", "n_tensor", "notes"),
    [
        ({}, False, 733, ()),
        (NEXTN, True, 753, (SHIPPED,)),
        (NEXTN, False, 733, (PROMISE,)),
    ],
    ids=["no draft head", "draft head shipped", "draft head only in metadata"],
)
def test_real_qwen_gguf_maps_in_full(
    keys: Json, draft: bool, n_tensor: int, notes: tuple[str, ...]
) -> None:
    file: GGUFFile = real_gguf(gguf_headers("qwen35moe-35B-A3B"), keys=keys, draft=draft)
    assert len(file.tensors) == n_tensor
    blueprint = locate(file)
    check_qwen(blueprint.cfg, QWEN_35B)
    assert blueprint.notes == notes
    mapped = [n_mapped(blueprint, i) for i in range(blueprint.cfg.n_layer)]
    assert mapped == [16 if i % 4 == 3 else 19 for i in range(40)]


def qwen_checkpoint(config: Json, table: Json) -> Checkpoint:
    """The checkpoint that a table of the 35B json's form describes, vision and draft included."""
    shapes: dict[str, list[int]] = dict(table["global"])
    for i, kind in enumerate(table["layer_types"]):
        prefix = table["layer_prefix"].format(i=i)
        shapes |= {prefix + name: dims for name, dims in table["per_layer"][kind].items()}
    for name, dims in table["mtp"].items():
        experts = range(table["n_experts_mtp"]) if "{e}" in name else range(1)
        shapes |= {name.replace("{e}", str(e)): dims for e in experts}
    shapes |= {f"model.visual.tensor_{i}": [1] for i in range(table["n_visual_tensors"])}
    f32 = tuple(table["f32_tensors"])
    kinds = {name: "F32" if name.endswith(f32) else "BF16" for name in shapes}
    return checkpoint(config, [lazy(name, dims, kinds[name]) for name, dims in shapes.items()])


def visual_parameters(vision: Json) -> int:
    """Parameters of the vision tower, from its config: a plain ViT with biases, and a merger."""
    d, ff, out = vision["hidden_size"], vision["intermediate_size"], vision["out_hidden_size"]
    patch = vision["in_channels"] * vision["temporal_patch_size"] * vision["patch_size"] ** 2
    merged = d * vision["spatial_merge_size"] ** 2
    block = 4 * d + (3 * d * d + 3 * d) + (d * d + d) + (d * ff + ff) + (ff * d + d)
    merger = 2 * d + (merged * merged + merged) + (merged * out + out)
    embeddings = d * patch + d + vision["num_position_embeddings"] * d
    return int(embeddings + vision["depth"] * block + merger)


def test_published_qwen_35b_maps_in_full() -> None:
    config = read_json("configs/Qwen3.5-35B-A3B.config.json")
    file = qwen_checkpoint(config, read_json("configs/Qwen3.5-35B-A3B.tensors.json"))
    assert len(file.tensors) == 1811
    text = [t for name, t in file.tensors.items() if not name.startswith("model.visual.")]
    n_f32 = n_parameter(t for t in text if t.type.name == "F32")
    n_bf16 = n_parameter(t for t in text if t.type.name == "BF16")
    assert n_f32 == 4800
    assert n_bf16 + visual_parameters(config["vision_config"]) == 35_951_817_904
    blueprint = locate(file)
    check_qwen(blueprint.cfg, QWEN_35B)
    assert blueprint.notes == (
        "model.safetensors: 333 tensors not used: the vision tower (text only)",
        "model.safetensors: 785 tensors not used: the draft head (speculative decoding is not "
        "built yet)",
    )


def larger_table(config: Json) -> Json:
    """The table of a larger Qwen by the rules of the published 35B table, from its config."""
    table = read_json("configs/Qwen3.5-35B-A3B.tensors.json")
    text = config["text_config"]
    d, e, ff = text["hidden_size"], text["num_experts"], text["moe_intermediate_size"]
    shared = text["shared_expert_intermediate_size"]
    q = text["num_attention_heads"] * text["head_dim"]
    kv = text["num_key_value_heads"] * text["head_dim"]
    hv, state = text["linear_num_value_heads"], text["linear_value_head_dim"]
    qkv = 2 * text["linear_num_key_heads"] * text["linear_key_head_dim"] + hv * state
    moe = {
        "mlp.gate.weight": [e, d],
        "mlp.experts.gate_up_proj": [e, 2 * ff, d],
        "mlp.experts.down_proj": [e, d, ff],
        "mlp.shared_expert.gate_proj.weight": [shared, d],
        "mlp.shared_expert.up_proj.weight": [shared, d],
        "mlp.shared_expert.down_proj.weight": [d, shared],
        "mlp.shared_expert_gate.weight": [1, d],
        "input_layernorm.weight": [d],
        "post_attention_layernorm.weight": [d],
    }
    attention = {
        "self_attn.q_proj.weight": [2 * q, d],
        "self_attn.k_proj.weight": [kv, d],
        "self_attn.v_proj.weight": [kv, d],
        "self_attn.o_proj.weight": [d, q],
        "self_attn.q_norm.weight": [text["head_dim"]],
        "self_attn.k_norm.weight": [text["head_dim"]],
    }
    delta = {
        "linear_attn.dt_bias": [hv],
        "linear_attn.A_log": [hv],
        "linear_attn.conv1d.weight": [qkv, 1, text["linear_conv_kernel_dim"]],
        "linear_attn.norm.weight": [state],
        "linear_attn.out_proj.weight": [d, hv * state],
        "linear_attn.in_proj_qkv.weight": [qkv, d],
        "linear_attn.in_proj_z.weight": [hv * state, d],
        "linear_attn.in_proj_b.weight": [hv, d],
        "linear_attn.in_proj_a.weight": [hv, d],
    }
    return {
        **table,
        "layer_types": text["layer_types"],
        "per_layer": {"linear_attention": {**delta, **moe}, "full_attention": {**attention, **moe}},
        "global": {
            "model.language_model.embed_tokens.weight": [text["vocab_size"], d],
            "model.language_model.norm.weight": [d],
            "lm_head.weight": [text["vocab_size"], d],
        },
        "n_experts_mtp": e,
    }


def test_the_rules_for_larger_models_give_the_published_table() -> None:
    config = read_json("configs/Qwen3.5-35B-A3B.config.json")
    assert larger_table(config) == read_json("configs/Qwen3.5-35B-A3B.tensors.json")


@pytest.mark.parametrize(("size", "expected"), [("122B-A10B", QWEN_122B), ("397B-A17B", QWEN_397B)])
def test_larger_qwen_maps_in_full(size: str, expected: Mapping[str, float]) -> None:
    config = read_json(f"configs/Qwen3.5-{size}.config.json")
    file = qwen_checkpoint(config, larger_table(config))
    blueprint = locate(file)
    check_qwen(blueprint.cfg, expected)
    trunk = [
        tensor
        for name, tensor in file.tensors.items()
        if not name.startswith(("model.visual.", "mtp."))
    ]
    billions = n_parameter(trunk) / 1e9
    assert billions == pytest.approx(float(size.split("B")[0]), rel=0.01)
    ours = [blueprint.located.whole, *blueprint.located.layers]
    parts = [found for fields in ours for found in fields.values() if found is not None]
    flat = [t for found in parts for t in ((found,) if isinstance(found, Tensor) else found)]
    assert n_parameter(flat) == n_parameter(trunk)
