"""One layer of each kind at the real sizes of Qwen3.5-35B-A3B and gpt-oss-20b, random weights.

    layer = REAL_LAYERS["qwen35moe_full_attention"]
    tensors = layer.tensors()               # name -> function that makes the tensor, index 0
    x = layer.input()                       # [n_tok, n_embd], what enters the block
    golden = layer.golden()                 # rows that transformers computed

A layer's float32 weights are 3.2 GB, nearly all of it experts: call the functions one at a time.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.tiny.fills import Table
from tests.tiny.goldens import FOLDER
from tests.tiny.random_weights import F32, affine
from tests.tiny.weights import gpt_oss_layer, qwen_layer

QWEN_35B: dict[str, Any] = {
    "architectures": ["Qwen3_5MoeForCausalLM"],
    "model_type": "qwen3_5_moe_text",
    "attention_bias": False,
    "attn_output_gate": True,
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 262144,
    "moe_intermediate_size": 512,
    "num_attention_heads": 16,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 1,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {
        "mrope_interleaved": True,
        "mrope_section": [11, 11, 10],
        "partial_rotary_factor": 0.25,
        "rope_theta": 10000000,
        "rope_type": "default",
    },
    "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": False,
    "vocab_size": 8,
}

GPT_OSS_20B: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "experts_per_token": 4,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2880,
    "initial_context_length": 4096,
    "intermediate_size": 2880,
    "max_position_embeddings": 131072,
    "model_type": "gpt_oss",
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 1,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "rms_norm_eps": 1e-5,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150000,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
    "vocab_size": 8,
}


@dataclass(frozen=True)
class RealGolden:
    """Hidden states by transformers at `positions`: [len(positions), n_embd] float32.

    after_mix    x + attention or DeltaNet
    out          the layer's output
    scale        max |out| over all positions
    """

    after_mix: F32
    out: F32
    scale: float
    made_by: Mapping[str, str]


@dataclass(frozen=True)
class RealLayer:
    """A layer that stands for its kind: config of a model of this one layer, and its data."""

    name: str
    config: Mapping[str, Any]
    n_tok: int
    positions: tuple[int, ...]

    @property
    def kind(self) -> str:
        """The layer's entry in `layer_types`."""
        return str(self.config["layer_types"][0])

    @property
    def n_embd(self) -> int:
        """Width of the hidden states."""
        return int(self.config["hidden_size"])

    def table(self) -> Table:
        """Shapes and spreads by safetensors name."""
        prefix = "model.layers.0."
        if self.config["model_type"] == "gpt_oss":
            return gpt_oss_layer(self.config, prefix)
        return qwen_layer(self.config, prefix, self.kind)

    def tensors(self) -> dict[str, Callable[[], F32]]:
        """By safetensors name, a function that makes the tensor; each call makes it anew."""
        return {
            name: partial(fill.make, f"{self.name}/{name}") for name, fill in self.table().items()
        }

    def input(self) -> F32:
        """The hidden states that enter the layer, float32 [n_tok, n_embd], of deviation 1."""
        return affine(f"{self.name}/input", (self.n_tok, self.n_embd), 0.0, 3.0**0.5)

    @property
    def golden_path(self) -> Path:
        """Where its golden lies."""
        return FOLDER / "transformers" / f"real_{self.name}.npz"

    def save_golden(self, golden: RealGolden) -> None:
        """Write its golden."""
        np.savez_compressed(
            self.golden_path,
            after_mix=golden.after_mix,
            out=golden.out,
            scale=np.float32(golden.scale),
            made_by=np.array(json.dumps(dict(golden.made_by))),
        )

    def golden(self) -> RealGolden:
        """Read its golden."""
        with np.load(self.golden_path) as data:
            return RealGolden(
                after_mix=data["after_mix"],
                out=data["out"],
                scale=float(data["scale"]),
                made_by=json.loads(str(data["made_by"])),
            )


def _layer(name: str, config: dict[str, Any], kind: str, n_tok: int, *positions: int) -> RealLayer:
    one = {**config, "layer_types": [kind]}
    return RealLayer(f"{name}_{kind}", one, n_tok, positions)


_AROUND_64 = (0, 1, 2, 63, 64, 65, 69)
_AROUND_128 = (0, 1, 63, 64, 127, 128, 129, 139)
_ALL = (
    _layer("qwen35moe", QWEN_35B, "linear_attention", 70, *_AROUND_64),
    _layer("qwen35moe", QWEN_35B, "full_attention", 70, *_AROUND_64),
    _layer("gpt_oss", GPT_OSS_20B, "sliding_attention", 140, *_AROUND_128),
    _layer("gpt_oss", GPT_OSS_20B, "full_attention", 140, *_AROUND_128),
)
REAL_LAYERS: dict[str, RealLayer] = {layer.name: layer for layer in _ALL}
