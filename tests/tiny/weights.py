"""The tensors of a checkpoint, from its config alone: names, shapes and random values.

Names and layouts are those of published safetensors files. Values come from `random_weights` by
tensor name, so one tensor of a model of any size can be made without the others. Spreads are such
that logits are of order one, attention looks far back, decays lie in (0.05, 0.999) and the clamps
of gpt-oss are met now and then.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.tiny import gpt2
from tests.tiny.fills import Fill, Table, linear, norm
from tests.tiny.random_weights import F32

Config = Mapping[str, Any]


def text_config(config: Config) -> Config:
    """The part of a config that describes the language model."""
    text: Config = config.get("text_config", config)
    return text


def table(config: Config) -> Table:
    """Every tensor of the model that `config` describes, by safetensors name, in file order."""
    kinds: dict[str, Callable[[Config], Table]] = {
        "qwen3_5_moe": _qwen,
        "qwen3_5_moe_text": _qwen,
        "qwen3_5_text": _qwen,
        "qwen3_next": _qwen,
        "gpt_oss": _gpt_oss,
        "llama": _llama,
        "qwen3": _llama,
        "qwen3_moe": _llama,
        "gpt2": gpt2.table,
    }
    return kinds[config["model_type"]](config)


def layer_types(text: Config) -> list[str]:
    """The kind of each layer of a model with DeltaNet, stated or by the interval."""
    interval = text.get("full_attention_interval", 4)
    by_interval = ["linear_attention"] * (interval - 1) + ["full_attention"]
    usual = by_interval * (text["num_hidden_layers"] // interval + 1)
    stated: list[str] = text.get("layer_types", usual[: text["num_hidden_layers"]])
    return stated


def _globals(text: Config, tied: bool, prefix: str, norm_center: float) -> tuple[Table, Table]:
    n_vocab, n_embd = text["vocab_size"], text["hidden_size"]
    embedding = Fill((n_vocab, n_embd), 0.0, (0.3 if tied else 1.0) * 3.0**0.5)
    head = {} if tied else {"lm_head.weight": linear(n_vocab, n_embd)}
    first = {prefix + "embed_tokens.weight": embedding}
    return first, {prefix + "norm.weight": norm(n_embd, norm_center), **head}


def _qwen(config: Config) -> Table:
    text = text_config(config)
    wrapped = "text_config" in config
    prefix = "model.language_model." if wrapped else "model."
    first, last = _globals(text, config["tie_word_embeddings"], prefix, 0.0)
    out = dict(first)
    for i, kind in enumerate(layer_types(text)):
        out |= qwen_layer(text, f"{prefix}layers.{i}.", kind)
    out |= last
    if text.get("mtp_num_hidden_layers"):
        out |= _qwen_mtp(text)
    if wrapped:
        out |= _visual(config["vision_config"])
    return out


def qwen_layer(text: Config, prefix: str, kind: str) -> Table:
    """One layer of Qwen3.5 or Qwen3-Next with merged experts; `kind` as in `layer_types`."""
    n_embd = text["hidden_size"]
    mix = _qwen_attention(text) if kind == "full_attention" else _qwen_linear_attention(text)
    ffn = {**_qwen_moe(text), **_shared_expert(text)} if "num_experts" in text else _dense(text)
    out = {
        "input_layernorm.weight": norm(n_embd, 0.0),
        **mix,
        "post_attention_layernorm.weight": norm(n_embd, 0.0),
        **ffn,
    }
    return {prefix + name: fill for name, fill in out.items()}


def _qwen_attention(text: Config) -> Table:
    n_embd, d = text["hidden_size"], text["head_dim"]
    n_q, n_kv = text["num_attention_heads"] * d, text["num_key_value_heads"] * d
    return {
        "self_attn.q_proj.weight": linear(2 * n_q, n_embd),
        "self_attn.k_proj.weight": linear(n_kv, n_embd),
        "self_attn.v_proj.weight": linear(n_kv, n_embd),
        "self_attn.o_proj.weight": linear(n_embd, n_q, 2.0),
        # stored minus one; a mean of 1.5 in use makes attention choose
        "self_attn.q_norm.weight": Fill((d,), 0.5, 0.3),
        "self_attn.k_norm.weight": Fill((d,), 0.5, 0.3),
    }


def _qwen_linear_attention(text: Config) -> Table:
    n_embd, n_state = text["hidden_size"], text["linear_value_head_dim"]
    n_head_v, n_tap = text["linear_num_value_heads"], text["linear_conv_kernel_dim"]
    n_value = n_head_v * n_state
    n_channel = 2 * text["linear_num_key_heads"] * text["linear_key_head_dim"] + n_value
    into = {
        "linear_attn.in_proj_qkv.weight": linear(n_channel, n_embd),
        "linear_attn.in_proj_z.weight": linear(n_value, n_embd),
        "linear_attn.in_proj_b.weight": linear(n_head_v, n_embd),
        "linear_attn.in_proj_a.weight": linear(n_head_v, n_embd, 0.5),
    }
    if text["model_type"] == "qwen3_next":
        into = {
            "linear_attn.in_proj_qkvz.weight": linear(n_channel + n_value, n_embd),
            "linear_attn.in_proj_ba.weight": linear(2 * n_head_v, n_embd, 0.7),
        }
    return {
        **into,
        "linear_attn.A_log": Fill((n_head_v,), 0.693, 1.386),  # A from 0.5 to 8
        "linear_attn.dt_bias": Fill((n_head_v,), -3.0, 2.0),
        "linear_attn.conv1d.weight": Fill((n_channel, 1, n_tap), 0.1, 0.9),
        "linear_attn.norm.weight": norm(n_state),
        "linear_attn.out_proj.weight": linear(n_embd, n_value, 1.5),
    }


def _qwen_moe(text: Config) -> Table:
    n_embd, n_expert = text["hidden_size"], text["num_experts"]
    n_ff = text["moe_intermediate_size"]
    into, out_of = (3.0 / n_embd) ** 0.5, 2.0 * (3.0 / n_ff) ** 0.5
    return {
        "mlp.gate.weight": linear(n_expert, n_embd, 2.0),
        "mlp.experts.gate_up_proj": Fill((n_expert, 2 * n_ff, n_embd), 0.0, into),
        "mlp.experts.down_proj": Fill((n_expert, n_embd, n_ff), 0.0, out_of),
    }


def _shared_expert(text: Config) -> Table:
    n_embd, n_ff = text["hidden_size"], text["shared_expert_intermediate_size"]
    return {
        "mlp.shared_expert.gate_proj.weight": linear(n_ff, n_embd),
        "mlp.shared_expert.up_proj.weight": linear(n_ff, n_embd),
        "mlp.shared_expert.down_proj.weight": linear(n_embd, n_ff, 2.0),
        "mlp.shared_expert_gate.weight": linear(1, n_embd),
    }


def _dense(text: Config) -> Table:
    n_embd, n_ff = text["hidden_size"], text["intermediate_size"]
    return {
        "mlp.gate_proj.weight": linear(n_ff, n_embd),
        "mlp.up_proj.weight": linear(n_ff, n_embd),
        "mlp.down_proj.weight": linear(n_embd, n_ff, 2.0),
    }


def _qwen_mtp(text: Config) -> Table:
    """The draft head; its experts are stored one by one."""
    n_embd = text["hidden_size"]
    layer = split_experts(qwen_layer(text, "mtp.layers.0.", "full_attention"))
    norms = ("mtp.norm", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden")
    return {
        "mtp.fc.weight": linear(n_embd, 2 * n_embd),
        **{name + ".weight": norm(n_embd, 0.0) for name in norms},
        **layer,
    }


def split_experts(merged: Table) -> Table:
    """The same table with one gate, up and down tensor an expert in place of merged ones."""
    out: Table = {}
    for name, fill in merged.items():
        parts = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
        stem, _, last = name.rpartition(".")
        if not stem.endswith("mlp.experts"):
            out[name] = fill
            continue
        n_expert, n_row, n_column = fill.shape
        shape = (n_row // len(parts[last]), n_column)
        for e in range(n_expert):
            for part in parts[last]:
                out[f"{stem}.{e}.{part}.weight"] = Fill(shape, fill.center, fill.spread)
    return out


def _visual(vision: Config) -> Table:
    """A few tensors under the names of the vision tower, of no meaning."""
    n, n_out = vision["hidden_size"], vision["out_hidden_size"]
    return {
        "model.visual.patch_embed.proj.weight": Fill((n, 3, 2, 4, 4), 0.0, 0.1),
        "model.visual.blocks.0.norm1.weight": norm(n),
        "model.visual.merger.linear_fc2.weight": linear(n_out, n),
    }


def _gpt_oss(config: Config) -> Table:
    first, last = _globals(config, config["tie_word_embeddings"], "model.", 1.0)
    out = dict(first)
    for i in range(config["num_hidden_layers"]):
        out |= gpt_oss_layer(config, f"model.layers.{i}.")
    return out | last


def gpt_oss_layer(config: Config, prefix: str) -> Table:
    """One layer of gpt-oss with its experts as in the bf16 form: inputs along the rows."""
    n_embd, d, n_head = config["hidden_size"], config["head_dim"], config["num_attention_heads"]
    n_q, n_kv = n_head * d, config["num_key_value_heads"] * d
    n_expert, n_ff = config["num_local_experts"], config["intermediate_size"]
    sizes = {"q": (n_q, n_embd, 1.5), "k": (n_kv, n_embd, 1.5), "v": (n_kv, n_embd, 1.0)}
    sizes["o"] = (n_embd, n_q, 1.5)
    out = {"input_layernorm.weight": norm(n_embd)}
    for letter, (n_out, n_in, gain) in sizes.items():
        out[f"self_attn.{letter}_proj.weight"] = linear(n_out, n_in, gain)
        out[f"self_attn.{letter}_proj.bias"] = Fill((n_out,), 0.0, 0.2)
    # gate and up reach past the limit of 7 in about one value of fifty
    into, out_of = 3.0 * (3.0 / n_embd) ** 0.5, 0.2 * (3.0 / n_ff) ** 0.5
    out |= {
        "self_attn.sinks": Fill((n_head,), 0.0, 3.0**0.5),
        "post_attention_layernorm.weight": norm(n_embd),
        "mlp.router.weight": linear(n_expert, n_embd, 2.0),
        "mlp.router.bias": Fill((n_expert,), 0.0, 0.2),
        "mlp.experts.gate_up_proj": Fill((n_expert, n_embd, 2 * n_ff), 0.0, into),
        "mlp.experts.gate_up_proj_bias": Fill((n_expert, 2 * n_ff), 0.0, 0.2),
        "mlp.experts.down_proj": Fill((n_expert, n_ff, n_embd), 0.0, out_of),
        "mlp.experts.down_proj_bias": Fill((n_expert, n_embd), 0.0, 0.2),
    }
    return {prefix + name: fill for name, fill in out.items()}


def _llama(config: Config) -> Table:
    """Llama, and Qwen3, which is the same with norms of q and k and maybe with experts."""
    n_embd, n_head = config["hidden_size"], config["num_attention_heads"]
    d = config.get("head_dim", n_embd // n_head)
    n_q, n_kv = n_head * d, config["num_key_value_heads"] * d
    first, last = _globals(config, config["tie_word_embeddings"], "model.", 1.0)
    out = dict(first)
    for i in range(config["num_hidden_layers"]):
        layer = {
            "input_layernorm.weight": norm(n_embd),
            "self_attn.q_proj.weight": linear(n_q, n_embd, 1.5),
            "self_attn.k_proj.weight": linear(n_kv, n_embd, 1.5),
            "self_attn.v_proj.weight": linear(n_kv, n_embd),
            "self_attn.o_proj.weight": linear(n_embd, n_q, 1.5),
            "post_attention_layernorm.weight": norm(n_embd),
            **(_qwen_moe(config) if "num_experts" in config else _dense(config)),
        }
        if config["model_type"] != "llama":  # a mean of 1.5 makes attention choose
            layer |= {f"self_attn.{x}_norm.weight": Fill((d,), 1.5, 0.3) for x in ("q", "k")}
        out |= {f"model.layers.{i}.{name}": fill for name, fill in layer.items()}
    return out | last


def to_bf16_values(values: F32) -> F32:
    """The nearest bfloat16 values, ties to even, as float32."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return (rounded << np.uint32(16)).view(np.float32)
