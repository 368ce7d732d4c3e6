"""A tiny GPT-2: its config.json, the tensors of its checkpoint, and the same as GGUF.

Written from the formats' rules; shares nothing with `junto`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.tiny.fills import Fill, Table, norm

Array = npt.NDArray[Any]

CONFIG: dict[str, Any] = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 3,
    "embd_pdrop": 0.1,
    "eos_token_id": 4,
    "layer_norm_epsilon": 1e-5,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 60,
    "n_head": 5,
    "n_inner": 152,
    "n_layer": 3,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 239,
}


def table(config: Mapping[str, Any]) -> Table:
    """Every tensor by safetensors name; matrices have their inputs along the rows."""
    n, n_ff = config["n_embd"], config["n_inner"]
    spread = 0.3 * 3.0**0.5
    out = {
        "transformer.wte.weight": Fill((config["vocab_size"], n), 0.0, spread),
        "transformer.wpe.weight": Fill((config["n_positions"], n), 0.0, spread),
    }
    for i in range(config["n_layer"]):
        out |= {f"transformer.h.{i}.{name}": fill for name, fill in _layer(n, n_ff).items()}
    return out | {"transformer.ln_f.weight": norm(n), "transformer.ln_f.bias": Fill((n,), 0.0, 0.2)}


def _layer(n: int, n_ff: int) -> Table:
    sizes = {
        "attn.c_attn": (n, 3 * n, 1.5),
        "attn.c_proj": (n, n, 1.5),
        "mlp.c_fc": (n, n_ff, 1.0),
        "mlp.c_proj": (n_ff, n, 2.0),
    }
    out: Table = {}
    for name in ("ln_1", "ln_2"):
        out |= {f"{name}.weight": norm(n), f"{name}.bias": Fill((n,), 0.0, 0.2)}
    for name, (n_in, n_out, gain) in sizes.items():
        out[f"{name}.weight"] = Fill((n_in, n_out), 0.0, gain * (3.0 / n_in) ** 0.5)
        out[f"{name}.bias"] = Fill((n_out,), 0.0, 0.2)
    return out


GGUF_NAMES = {
    "ln_1": "attn_norm",
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}


def to_gguf(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """GGUF tensors: matrices turned so that outputs are rows."""
    out = {
        "token_embd.weight": tensors["transformer.wte.weight"],
        "position_embd.weight": tensors["transformer.wpe.weight"],
        "output_norm.weight": tensors["transformer.ln_f.weight"],
        "output_norm.bias": tensors["transformer.ln_f.bias"],
    }
    for name, values in tensors.items():
        if name.startswith("transformer.h."):
            layer, _, rest = name.removeprefix("transformer.h.").partition(".")
            stem, _, part = rest.rpartition(".")
            turned = np.ascontiguousarray(values.T) if values.ndim == 2 else values
            out[f"blk.{layer}.{GGUF_NAMES[stem]}.{part}"] = turned
    return out


def metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """GGUF metadata, below "gpt2."."""
    return {
        "block_count": config["n_layer"],
        "context_length": config["n_positions"],
        "embedding_length": config["n_embd"],
        "feed_forward_length": config["n_inner"],
        "attention.head_count": config["n_head"],
        "attention.layer_norm_epsilon": float(config["layer_norm_epsilon"]),
    }
