"""Safetensors names and layouts to GGUF's, by the rules of the formats, for the tiny models.

Written for the tests on its own: it shares nothing with `junto`, so that an error in one is not
repeated in the other. Knows arrays and metadata, not bytes: `gguf_writer` writes them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.tiny import gpt2
from tests.tiny.qwen_to_gguf import feed_forward, outside_layers, qwen
from tests.tiny.random_weights import F32, U8
from tests.tiny.weights import Config, text_config

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]


def convert(config: Config, tensors: Arrays, *, draft: bool = False) -> dict[str, Array]:
    """GGUF tensors of a model: float32, or uint8 rows of MXFP4 blocks.

    With `draft` the tensors of the draft head (`mtp.*`) become the layer after the last one.
    """
    model_type = text_config(config)["model_type"]
    if model_type in ("qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"):
        return qwen(text_config(config), tensors, draft)
    if model_type == "gpt2":
        return gpt2.to_gguf(tensors)
    if model_type in ("qwen3", "qwen3_moe"):
        return _qwen3(config, tensors)
    if model_type == "gpt_oss":
        return _gpt_oss(config, tensors)
    return _llama(config, tensors)


def _gpt_oss(config: Config, tensors: Arrays) -> dict[str, Array]:
    out = outside_layers(tensors, "model.")
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


def _qwen3(config: Config, tensors: Arrays) -> dict[str, Array]:
    """Rows of q and k stay: its heads turn in halves in GGUF too."""
    out = outside_layers(tensors, "model.")
    out["output_norm.weight"] = tensors["model.norm.weight"]
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    names |= {f"attn_{letter}": f"self_attn.{letter}_proj" for letter in "qkv"}
    names |= {f"attn_{letter}_norm": f"self_attn.{letter}_norm" for letter in "qk"}
    names |= {"attn_output": "self_attn.o_proj"}
    for i in range(config["num_hidden_layers"]):
        source = f"model.layers.{i}."
        layer = {n.removeprefix(source): t for n, t in tensors.items() if n.startswith(source)}
        block = {f"{ours}.weight": layer[f"{theirs}.weight"] for ours, theirs in names.items()}
        out |= {f"blk.{i}.{n}": t for n, t in {**block, **feed_forward(layer)}.items()}
    return out


def _llama(config: Config, tensors: Arrays) -> dict[str, Array]:
    out = outside_layers(tensors, "model.")
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
