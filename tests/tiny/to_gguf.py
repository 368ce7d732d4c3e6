"""Safetensors names and layouts to GGUF's, by the rules of the formats, for the tiny models.

Written for the tests on its own: it shares nothing with `junto`, so that an error in one is not
repeated in the other. Knows arrays and metadata, not bytes: `gguf_writer` writes them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.tiny.random_weights import F32, U8
from tests.tiny.weights import Config, text_config

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


def convert(config: Config, tensors: Arrays, *, draft: bool = False) -> dict[str, Array]:
    """GGUF tensors of a model: float32, or uint8 rows of MXFP4 blocks.

    With `draft` the tensors of the draft head (`mtp.*`) become the layer after the last one.
    """
    model_type = text_config(config)["model_type"]
    if model_type == "qwen3_5_moe_text":
        return _qwen(text_config(config), tensors, draft)
    if model_type == "gpt_oss":
        return _gpt_oss(config, tensors)
    return _llama(config, tensors)


def _globals(tensors: Arrays, prefix: str) -> dict[str, Array]:
    out = {"token_embd.weight": tensors[prefix + "embed_tokens.weight"]}
    if "lm_head.weight" in tensors:
        out["output.weight"] = tensors["lm_head.weight"]
    return out


def _tile(values: Array, n_head_k: int, n_head_v: int, axis: int = 0) -> Array:
    """Value heads from grouped order (key head major) to tiled order (key head minor)."""
    moved = np.moveaxis(values, axis, 0)
    split = moved.reshape(n_head_k, n_head_v // n_head_k, -1, *moved.shape[1:])
    return np.moveaxis(split.swapaxes(0, 1).reshape(moved.shape), 0, axis)


def _qwen(text: Config, tensors: Arrays, draft: bool) -> dict[str, Array]:
    wrapped = "model.language_model.norm.weight" in tensors
    prefix = "model.language_model." if wrapped else "model."
    out = _globals(tensors, prefix)
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
    else:
        out |= _qwen_linear_attention(text, layer)
    gate, up, down = _qwen_experts(layer)
    out |= {
        "ffn_gate_inp.weight": layer["mlp.gate.weight"],
        "ffn_gate_exps.weight": gate,
        "ffn_up_exps.weight": up,
        "ffn_down_exps.weight": down,
        "ffn_gate_inp_shexp.weight": layer["mlp.shared_expert_gate.weight"].reshape(-1),
    }
    for part in ("gate", "up", "down"):
        out[f"ffn_{part}_shexp.weight"] = layer[f"mlp.shared_expert.{part}_proj.weight"]
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


def _gpt_oss(config: Config, tensors: Arrays) -> dict[str, Array]:
    out = _globals(tensors, "model.")
    out["output_norm.weight"] = tensors["model.norm.weight"]
    for i in range(config["num_hidden_layers"]):
        source = f"model.layers.{i}."
        layer = {n.removeprefix(source): t for n, t in tensors.items() if n.startswith(source)}
        block = {
            "attn_norm.weight": layer["input_layernorm.weight"],
            "post_attention_norm.weight": layer["post_attention_layernorm.weight"],
            "attn_sinks.weight": layer["self_attn.sinks"],
            "ffn_gate_inp.weight": layer["mlp.router.weight"],
            "ffn_gate_inp.bias": layer["mlp.router.bias"],
            **_gpt_oss_experts(layer),
        }
        for letter, name in {"q": "q", "k": "k", "v": "v", "o": "output"}.items():
            for part in ("weight", "bias"):
                block[f"attn_{name}.{part}"] = layer[f"self_attn.{letter}_proj.{part}"]
        out |= {f"blk.{i}.{name}": tensor for name, tensor in block.items()}
    return out


def _gpt_oss_experts(layer: Arrays) -> dict[str, Array]:
    gate_up_bias = layer["mlp.experts.gate_up_proj_bias"]
    if "mlp.experts.gate_up_proj" in layer:  # inputs along the rows
        gate_up = layer["mlp.experts.gate_up_proj"].swapaxes(1, 2)
        down = layer["mlp.experts.down_proj"].swapaxes(1, 2)
    else:
        gate_up = mxfp4_rows(layer, "mlp.experts.gate_up_proj")
        down = mxfp4_rows(layer, "mlp.experts.down_proj")
    return {
        "ffn_gate_exps.weight": gate_up[:, 0::2],
        "ffn_gate_exps.bias": gate_up_bias[:, 0::2],
        "ffn_up_exps.weight": gate_up[:, 1::2],
        "ffn_up_exps.bias": gate_up_bias[:, 1::2],
        "ffn_down_exps.weight": down,
        "ffn_down_exps.bias": layer["mlp.experts.down_proj_bias"],
    }


def mxfp4_rows(layer: Arrays, name: str) -> U8:
    """Rows of 17-byte GGUF blocks from `<name>_blocks` and `<name>_scales`, uint8.

    A byte holds elements 2i (low) and 2i+1 (high) in safetensors, i and i+16 in GGUF.
    """
    blocks, scales = layer[name + "_blocks"], layer[name + "_scales"]
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    packed = codes[..., :16] | codes[..., 16:] << 4
    rows = np.concatenate([scales[..., None], packed], axis=-1)
    return rows.reshape(*rows.shape[:2], -1).astype(np.uint8)


def _llama(config: Config, tensors: Arrays) -> dict[str, Array]:
    out = _globals(tensors, "model.")
    out["output_norm.weight"] = tensors["model.norm.weight"]
    names = {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        **{f"ffn_{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")},
    }
    for i in range(config["num_hidden_layers"]):
        source = f"model.layers.{i}."
        for ours, theirs in names.items():
            out[f"blk.{i}.{ours}.weight"] = tensors[f"{source}{theirs}.weight"]
        for letter, key in {"q": "num_attention_heads", "k": "num_key_value_heads"}.items():
            rows = tensors[f"{source}self_attn.{letter}_proj.weight"]
            out[f"blk.{i}.attn_{letter}.weight"] = _interleave_halves(rows, config[key])
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") == "llama3":
        d = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
        out["rope_freqs.weight"] = llama3_divisors(rope, d)
    return out


def _interleave_halves(rows: Array, n_head: int) -> Array:
    """Rows of each head from (first half, second half) to adjacent pairs.

    GGUF's llama rotates adjacent dims (2j, 2j+1), safetensors' rotates dims (j, j + d/2).
    """
    halves = rows.reshape(n_head, 2, -1, rows.shape[1])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def llama3_divisors(rope: Mapping[str, Any], head_dim: int) -> F32:
    """What each rotation frequency is divided by under Llama 3.1's scaling, float32 [d/2]."""
    frequency = rope["rope_theta"] ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    n_ctx, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    turns = n_ctx * frequency / (2 * np.pi)
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return np.asarray(1.0 / ((1 - smooth) / factor + smooth), np.float32)
