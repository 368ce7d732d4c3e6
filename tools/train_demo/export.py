"""A checkpoint as the folder that people publish: config, weights, tokenizer, chat template.

`python -m tools.train_demo.export FAMILY --run DIR --out DIR` writes float32 safetensors under the
published names; the draft head's experts one by one, as published; gpt-oss experts in bfloat16 form
with MXFP4 values, and the config that says so. Knows nothing of GGUF: the project's own converter
makes that.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from tools.train_demo.build import make_network
from tools.train_demo.family import FAMILIES, NAMES, Family, Name
from tools.train_demo.mxfp4 import round_to_mxfp4

CONFIG_KEYS: dict[Name, str] = {
    "qwen35moe": """attention_bias head_dim hidden_act hidden_size layer_types
        linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_num_value_heads
        linear_value_head_dim max_position_embeddings model_type moe_intermediate_size
        mtp_num_hidden_layers mtp_use_dedicated_embeddings num_attention_heads num_experts
        num_experts_per_tok num_hidden_layers num_key_value_heads rms_norm_eps rope_parameters
        shared_expert_intermediate_size tie_word_embeddings vocab_size""",
    "gpt-oss": """attention_bias head_dim hidden_act hidden_size intermediate_size layer_types
        max_position_embeddings model_type num_attention_heads num_experts_per_tok
        num_hidden_layers num_key_value_heads num_local_experts rms_norm_eps rope_parameters
        sliding_window swiglu_limit tie_word_embeddings vocab_size""",
}
"""The keys of config.json, all taken from transformers' config; the rest of it says nothing."""

ARCHITECTURES: dict[Name, str] = {
    "qwen35moe": "Qwen3_5MoeForCausalLM",
    "gpt-oss": "GptOssForCausalLM",
}
ADDED: dict[Name, dict[str, Any]] = {
    "qwen35moe": {"attn_output_gate": True, "full_attention_interval": 4},
    "gpt-oss": {},
}


def config_json(name: Name, config: Any) -> dict[str, Any]:
    """The published form of a network's config."""
    whole = config.to_dict()
    whole.update(ADDED[name], architectures=[ARCHITECTURES[name]], dtype="float32")
    keys = [*CONFIG_KEYS[name].split(), *ADDED[name], "architectures", "dtype"]
    return {key: whole[key] for key in sorted(keys)}


def published_tensors(name: Name, network: Any) -> dict[str, Any]:
    """Tensors under their published names, float32, ready to save."""
    tensors = dict(network.trunk.state_dict())
    if name == "gpt-oss":
        for key in tensors:
            if key.endswith(("gate_up_proj", "down_proj")):
                tensors[key] = round_to_mxfp4(tensors[key], 1)
    else:
        draft = {f"mtp.{key}": value for key, value in network.mtp.state_dict().items()}
        tensors |= split_experts(draft)
    return {key: value.contiguous().clone() for key, value in tensors.items()}


def split_experts(tensors: dict[str, Any]) -> dict[str, Any]:
    """Merged experts [E, ...] as one tensor an expert and matrix; other tensors as they are."""
    out: dict[str, Any] = {}
    for key, value in tensors.items():
        stem, _, last = key.rpartition(".")
        if not stem.endswith(".experts"):
            out[key] = value
            continue
        for expert, matrix in enumerate(value):
            if last == "down_proj":
                out[f"{stem}.{expert}.down_proj.weight"] = matrix
            else:
                gate, up = matrix.chunk(2)
                out[f"{stem}.{expert}.gate_proj.weight"] = gate
                out[f"{stem}.{expert}.up_proj.weight"] = up
    return out


def generation_config(family: Family, tokenizer: Tokenizer) -> dict[str, Any]:
    """Stop tokens, and the sampling that suits a model this small."""
    return {
        "bos_token_id": tokenizer.token_to_id(family.bos),
        "pad_token_id": tokenizer.token_to_id(family.pad),
        "eos_token_id": [tokenizer.token_to_id(token) for token in family.stop],
        "do_sample": True,
        "temperature": 0.7,
        "top_k": 40,
        "top_p": 1.0,
        "min_p": 0.05,
    }


def export(name: Name, run: Path, out: Path) -> Any:
    """Write the folder `out` from the run's checkpoint and return the network.

    OSError if the run's files are missing.
    """
    network: Any = make_network(name)
    network.load_state_dict(torch.load(run / "checkpoint.pt", weights_only=True)["network"])
    write_folder(name, network, run, out)
    return network


def write_folder(name: Name, network: Any, run: Path, out: Path) -> None:
    """Write a network with the tokenizer and template of the folder `run`."""
    family = FAMILIES[name]
    tokenizer = Tokenizer.from_file(str(run / "tokenizer.json"))
    out.mkdir(parents=True, exist_ok=True)
    save_file(published_tensors(name, network), out / "model.safetensors", {"format": "pt"})
    special = {"bos_token": family.bos, "pad_token": family.pad, "eos_token": family.stop[0]}
    written = {
        "config.json": config_json(name, network.config),
        "generation_config.json": generation_config(family, tokenizer),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            **special,
        },
    }
    for file, content in written.items():
        (out / file).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for file in ("tokenizer.json", "chat_template.jinja"):
        shutil.copyfile(run / file, out / file)


def main() -> None:
    """Export one run."""
    options = argparse.ArgumentParser(prog="python -m tools.train_demo.export")
    options.add_argument("family", choices=NAMES)
    options.add_argument("--run", type=Path, required=True, help="the folder that training wrote")
    options.add_argument("--out", type=Path, required=True, help="the folder to write")
    given = options.parse_args()
    network = export(given.family, given.run, given.out)
    n_parameter = sum(value.numel() for value in network.state_dict().values())
    print(f"wrote {given.out} ({n_parameter:,} parameters)")


if __name__ == "__main__":
    main()
