"""Logits by transformers: float32, eager attention, no cache, plain torch everywhere.

Loads the checkpoint folder itself, so names, spellings and layouts are transformers' own reading.
Knows nothing of `junto`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tests.tiny.random_weights import F32, I64

CLASSES = {
    "Qwen3_5MoeForCausalLM": transformers.Qwen3_5MoeForCausalLM,
    "Qwen3_5MoeForConditionalGeneration": transformers.Qwen3_5MoeForCausalLM,
    "GptOssForCausalLM": transformers.GptOssForCausalLM,
    "LlamaForCausalLM": transformers.LlamaForCausalLM,
    "Qwen3ForCausalLM": transformers.Qwen3ForCausalLM,
    "Qwen3MoeForCausalLM": transformers.Qwen3MoeForCausalLM,
    "Qwen3_5ForCausalLM": transformers.Qwen3_5ForCausalLM,
    "Qwen3NextForCausalLM": transformers.Qwen3NextForCausalLM,
    "GPT2LMHeadModel": transformers.GPT2LMHeadModel,
}
"""The class that reads each published one; of a multimodal checkpoint only the text model."""


def versions() -> dict[str, str]:
    """What computed the numbers."""
    return {"transformers": transformers.__version__, "torch": torch.__version__}


def load(folder: Path, *, yarn_truncate: bool | None = None) -> Any:
    """The model in a checkpoint folder, ready for `logits`.

    MXFP4 weights are dequantised. With `yarn_truncate` the YaRN range is rounded (or not) whatever
    the config says. Raises RuntimeError if a tensor of the model is missing from the folder or was
    not understood.
    """
    torch.set_num_threads(2)
    raw = json.loads((folder / "config.json").read_text())
    config = transformers.AutoConfig.from_pretrained(folder)
    config = getattr(config, "text_config", config)
    if yarn_truncate is not None:
        config.rope_parameters["truncate"] = yarn_truncate
    mxfp4 = {"quantization_config": transformers.Mxfp4Config(dequantize=True)}
    model, info = CLASSES[raw["architectures"][0]].from_pretrained(
        folder,
        config=config,
        dtype=torch.float32,
        attn_implementation="eager",
        experts_implementation="eager",
        output_loading_info=True,
        **(mxfp4 if "quantization_config" in raw else {}),
    )
    faults = {key: info[key] for key in ("missing_keys", "mismatched_keys") if info[key]}
    strays = [key for key in info["unexpected_keys"] if not key.startswith(("mtp.", "model.vis"))]
    if faults or strays:
        raise RuntimeError(f"{folder.name}: not loaded as written: {faults}, unexpected {strays}")
    return model.eval().float()


def logits(model: Any, token_ids: I64) -> F32:
    """Logits after every token, float32 [n_tok, n_vocab]."""
    with torch.no_grad():
        out = model(torch.from_numpy(token_ids)[None], use_cache=False).logits[0]
    return np.asarray(out.numpy(), np.float32)
