"""Safetensors names and layouts of the Qwen families to GGUF's, for the tiny models.

Written for the tests on its own, as `to_gguf` is.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.tiny.random_weights import F32
from tests.tiny.weights import Config

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


def outside_layers(tensors: Arrays, prefix: str) -> dict[str, Array]:
    """Embedding and head."""
    out = {"token_embd.weight": tensors[prefix + "embed_tokens.weight"]}
    if "lm_head.weight" in tensors:
        out["output.weight"] = tensors["lm_head.weight"]
    return out


def _tile(values: Array, n_head_k: int, n_head_v: int, axis: int = 0) -> Array:
    """Value heads from grouped order (key head major) to tiled order (key head minor)."""
    moved = np.moveaxis(values, axis, 0)
    split = moved.reshape(n_head_k, n_head_v // n_head_k, -1, *moved.shape[1:])
    return np.moveaxis(split.swapaxes(0, 1).reshape(moved.shape), 0, axis)


def qwen(text: Config, tensors: Arrays, draft: bool) -> dict[str, Array]:
    """GGUF tensors of a Qwen3.5 or Qwen3-Next; with `draft` of its draft head as well."""
    wrapped = "model.language_model.norm.weight" in tensors
    prefix = "model.language_model." if wrapped else "model."
    out = outside_layers(tensors, prefix)
    out["output_norm.weight"] = tensors[prefix + "norm.weight"] + np.float32(1)
    for i in range(text["num_hidden_layers"]):
        out |= _qwen_layer(text, tensors, f"{prefix}layers.{i}.", f"blk.{i}.")
    if draft:
        block = f"blk.{text['num_hidden_layers']}."
        out |= _qwen_layer(text, tensors, "mtp.layers.0.", block)
        out[block + "nextn.eh_proj.weight"] = tensors["mtp.fc.weight"]
        norms = {
            "enorm": "pre_fc_norm_embedding",
            "hnorm": "pre_fc_norm_hidden",
            "shared_head_norm": "norm",
        }
        for ours, theirs in norms.items():
            out[f"{block}nextn.{ours}.weight"] = tensors[f"mtp.{theirs}.weight"] + np.float32(1)
    return out


def _qwen_layer(text: Config, tensors: Arrays, source: str, block: str) -> dict[str, Array]:
    layer = {n.removeprefix(source): t for n, t in tensors.items() if n.startswith(source)}
    one = np.float32(1)
    out = {
        "attn_norm.weight": layer["input_layernorm.weight"] + one,
        "post_attention_norm.weight": layer["post_attention_layernorm.weight"] + one,
    }
    if "self_attn.q_proj.weight" in layer:
        for letter, name in {"q": "q", "k": "k", "v": "v", "o": "output"}.items():
            out[f"attn_{name}.weight"] = layer[f"self_attn.{letter}_proj.weight"]
        out["attn_q_norm.weight"] = layer["self_attn.q_norm.weight"] + one
        out["attn_k_norm.weight"] = layer["self_attn.k_norm.weight"] + one
    elif "linear_attn.in_proj_qkvz.weight" in layer:
        out |= _qwen3_next_linear_attention(text, layer)
    else:
        out |= _qwen_linear_attention(text, layer)
    out |= feed_forward(layer)
    return {block + name: tensor for name, tensor in out.items()}


def _qwen_linear_attention(text: Config, layer: Arrays) -> dict[str, Array]:
    heads = text["linear_num_key_heads"], text["linear_num_value_heads"]
    n_qk = 2 * text["linear_num_key_heads"] * text["linear_key_head_dim"]

    def tile_v(rows: Array) -> Array:
        return np.concatenate([rows[:n_qk], _tile(rows[n_qk:], *heads)])

    mix = {n.removeprefix("linear_attn."): t for n, t in layer.items()}
    a = -np.exp(mix["A_log"].astype(np.float64))
    return {
        "attn_qkv.weight": tile_v(mix["in_proj_qkv.weight"]),
        "attn_gate.weight": _tile(mix["in_proj_z.weight"], *heads),
        "ssm_beta.weight": _tile(mix["in_proj_b.weight"], *heads),
        "ssm_alpha.weight": _tile(mix["in_proj_a.weight"], *heads),
        "ssm_a": _tile(a.astype(np.float32), *heads),
        "ssm_dt.bias": _tile(mix["dt_bias"], *heads),
        "ssm_conv1d.weight": tile_v(mix["conv1d.weight"][:, 0, :]),
        "ssm_norm.weight": mix["norm.weight"],
        "ssm_out.weight": _tile(mix["out_proj.weight"], *heads, axis=1),
    }


def _qwen3_next_linear_attention(text: Config, layer: Arrays) -> dict[str, Array]:
    """Its GGUFs take q, k, v and z apart, keep b and a together, and leave value heads grouped."""
    n_key, d = text["linear_num_key_heads"], text["linear_key_head_dim"]
    r = text["linear_num_value_heads"] // n_key
    mix = {n.removeprefix("linear_attn."): t for n, t in layer.items()}
    fused = mix["in_proj_qkvz.weight"].reshape(n_key, (2 + 2 * r) * d, -1)
    parts = np.split(fused, [d, 2 * d, (2 + r) * d], axis=1)
    q, k, v, z = (part.reshape(-1, part.shape[-1]) for part in parts)
    a = -np.exp(mix["A_log"].astype(np.float64))
    return {
        "attn_qkv.weight": np.concatenate([q, k, v]),
        "attn_gate.weight": z,
        "ssm_ba.weight": mix["in_proj_ba.weight"],
        "ssm_a": a.astype(np.float32),
        "ssm_dt.bias": mix["dt_bias"],
        "ssm_conv1d.weight": mix["conv1d.weight"][:, 0, :],
        "ssm_norm.weight": mix["norm.weight"],
        "ssm_out.weight": mix["out_proj.weight"],
    }


def feed_forward(layer: Arrays) -> dict[str, Array]:
    """The dense layer, or the experts and the shared one if there is one."""
    if "mlp.gate.weight" not in layer:
        return {
            f"ffn_{part}.weight": layer[f"mlp.{part}_proj.weight"]
            for part in ("gate", "up", "down")
        }
    gate, up, down = _qwen_experts(layer)
    out = {
        "ffn_gate_inp.weight": layer["mlp.gate.weight"],
        "ffn_gate_exps.weight": gate,
        "ffn_up_exps.weight": up,
        "ffn_down_exps.weight": down,
    }
    if "mlp.shared_expert_gate.weight" in layer:
        out["ffn_gate_inp_shexp.weight"] = layer["mlp.shared_expert_gate.weight"].reshape(-1)
        for part in ("gate", "up", "down"):
            out[f"ffn_{part}_shexp.weight"] = layer[f"mlp.shared_expert.{part}_proj.weight"]
    return out


def _qwen_experts(layer: Arrays) -> tuple[F32, F32, F32]:
    if "mlp.experts.gate_up_proj" in layer:
        gate, up = np.split(layer["mlp.experts.gate_up_proj"], 2, axis=1)
        return gate, up, layer["mlp.experts.down_proj"]
    names = [n.removeprefix("mlp.experts.") for n in layer if n.startswith("mlp.experts.")]
    n_expert = 1 + max(int(name.split(".")[0]) for name in names)

    def merged(part: str) -> F32:
        one_by_one = [layer[f"mlp.experts.{e}.{part}_proj.weight"] for e in range(n_expert)]
        return np.stack(one_by_one).astype(np.float32)

    return merged("gate"), merged("up"), merged("down")
