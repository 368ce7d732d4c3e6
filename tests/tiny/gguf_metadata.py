"""GGUF metadata of the tiny models: sizes, and the least tokenizer that llama.cpp loads."""

from collections.abc import Callable
from typing import Any

from tests.tiny import gpt2
from tests.tiny.weights import Config, layer_types, text_config

Metadata = dict[str, Any]
"""int is written as u32, float as f32, lists of int as arrays of i32."""


ARCHITECTURES = {
    "qwen3_5_moe_text": "qwen35moe",
    "gpt_oss": "gpt-oss",
    "llama": "llama",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "qwen3_5_text": "qwen35",
    "qwen3_next": "qwen3next",
    "gpt2": "gpt2",
}
"""`model_type` of config.json -> `general.architecture`."""

PRETOKENIZERS = {
    "qwen35moe": "qwen35",
    "gpt-oss": "gpt-4o",
    "llama": "smollm",
    "qwen3": "qwen2",
    "qwen3moe": "qwen2",
    "qwen35": "qwen35",
    "qwen3next": "qwen2",
    "gpt2": "gpt-2",
}
"""The tokenizer that each architecture's files name."""


def architecture(config: Config) -> str:
    """The name GGUF files give the architecture."""
    return ARCHITECTURES[text_config(config)["model_type"]]


def metadata(config: Config, *, n_nextn: int = 0) -> Metadata:
    """Keys after `general.architecture`; `n_nextn` draft layers are counted into block_count."""
    makers: dict[str, Callable[[Config], Metadata]] = {
        "qwen35moe": _qwen,
        "gpt-oss": _gpt_oss,
        "llama": _llama,
        "qwen3": _qwen3,
        "qwen3moe": _qwen3,
        "qwen35": _qwen,
        "qwen3next": _qwen,
        "gpt2": gpt2.metadata,
    }
    arch, text = architecture(config), text_config(config)
    shared = {} if arch == "gpt2" else _shared(text)
    sizes = shared | makers[arch](text)
    if n_nextn:
        sizes["block_count"] += n_nextn
        sizes["nextn_predict_layers"] = n_nextn
        if "attention.recurrent_layers" in sizes:
            sizes["attention.recurrent_layers"] += [False] * n_nextn
    out = {f"{arch}.{key}": value for key, value in sizes.items()}
    return {"general.name": "tiny", **out, **tokenizer(arch, text["vocab_size"])}


def _head_dim(text: Config) -> int:
    return int(text.get("head_dim", text["hidden_size"] // text["num_attention_heads"]))


def _rope(text: Config) -> dict[str, Any]:
    nested = text.get("rope_parameters") or text.get("rope_scaling") or {}
    flat = {k: text[k] for k in ("rope_theta", "partial_rotary_factor") if k in text}
    return {**flat, **nested}


def _shared(text: Config) -> Metadata:
    return {
        "block_count": text["num_hidden_layers"],
        "context_length": text["max_position_embeddings"],
        "embedding_length": text["hidden_size"],
        "attention.head_count": text["num_attention_heads"],
        "attention.head_count_kv": text["num_key_value_heads"],
        "attention.key_length": _head_dim(text),
        "attention.value_length": _head_dim(text),
        "attention.layer_norm_rms_epsilon": float(text["rms_norm_eps"]),
        "rope.freq_base": float(_rope(text)["rope_theta"]),
    }


def _qwen(text: Config) -> Metadata:
    rope = _rope(text)
    interval = text.get("full_attention_interval")
    recurrent = [kind != "full_attention" for kind in layer_types(text)]
    by_interval = [bool((i + 1) % interval) for i in range(len(recurrent))] if interval else []
    which: Metadata = {"full_attention_interval": interval}
    if recurrent != by_interval:
        which = {"attention.recurrent_layers": recurrent}
    n_state, n_head_v = text["linear_value_head_dim"], text["linear_num_value_heads"]
    if "mrope_section" in rope:
        which |= {"rope.dimension_sections": [*rope["mrope_section"], 0]}
    return {
        "rope.dimension_count": round(_head_dim(text) * rope["partial_rotary_factor"]),
        **_feed_forward(text),
        "ssm.conv_kernel": text["linear_conv_kernel_dim"],
        "ssm.state_size": n_state,
        "ssm.group_count": text["linear_num_key_heads"],
        "ssm.time_step_rank": n_head_v,
        "ssm.inner_size": n_head_v * n_state,
        **which,
    }


def _feed_forward(text: Config) -> Metadata:
    """Sizes of the dense layer (stated also where there is none) and of the experts."""
    names = {
        "intermediate_size": "feed_forward_length",
        "num_experts": "expert_count",
        "num_experts_per_tok": "expert_used_count",
        "moe_intermediate_size": "expert_feed_forward_length",
        "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    }
    return {ours: text[theirs] for theirs, ours in names.items() if theirs in text}


def _qwen3(text: Config) -> Metadata:
    return _feed_forward(text)


def _gpt_oss(text: Config) -> Metadata:
    rope = _rope(text)
    return {
        "feed_forward_length": text["intermediate_size"],
        "expert_feed_forward_length": text["intermediate_size"],
        "expert_count": text["num_local_experts"],
        "expert_used_count": text["num_experts_per_tok"],
        "attention.sliding_window": text["sliding_window"],
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": float(rope["factor"]),
        "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
    }


def _llama(text: Config) -> Metadata:
    return {
        "feed_forward_length": text["intermediate_size"],
        "rope.dimension_count": _head_dim(text),
        "vocab_size": text["vocab_size"],
    }


def tokenizer(arch: str, n_vocab: int) -> Metadata:
    """A byte-pair vocabulary of next to nothing: `t`, `o`, their merge, then `tok3`, `tok4`, ...

    Tokens 3 and 4 are the control tokens BOS and EOS. Most bytes have no token.
    """
    normal, control = 1, 3
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": PRETOKENIZERS[arch],
        "tokenizer.ggml.tokens": ["t", "o", "to", *(f"tok{i}" for i in range(3, n_vocab))],
        "tokenizer.ggml.token_type": [normal] * 3 + [control] * 2 + [normal] * (n_vocab - 5),
        "tokenizer.ggml.merges": ["t o"],
        "tokenizer.ggml.bos_token_id": 3,
        "tokenizer.ggml.eos_token_id": 4,
        "tokenizer.ggml.add_bos_token": False,
    }
