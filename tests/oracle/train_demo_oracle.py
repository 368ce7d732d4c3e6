"""Logits of the draft head by the torch network that trains the demo model.

transformers has no draft head; this network's is checked against transformers' layers in
tests/tools. Knows nothing of `junto`.
"""

from typing import Any

import numpy as np
import torch

from tests.tiny.models import TinyModel
from tests.tiny.random_weights import F32, I64
from tests.tiny.weights import text_config
from tools.train_demo.qwen import QwenNetwork, make_config


def versions() -> dict[str, str]:
    """What computed the numbers."""
    return {"torch": torch.__version__}


def network(tiny: TinyModel) -> Any:
    """The network with the weights of a tiny qwen35moe that has a draft head."""
    torch.set_num_threads(2)
    text = text_config(tiny.config)
    left_out = ("mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "model_type")
    config = make_config(**{key: value for key, value in text.items() if key not in left_out})
    made = QwenNetwork(config)
    tensors = {
        name.replace("model.language_model.", "model."): torch.from_numpy(values)
        for name, values in tiny.hf_tensors().items()
        if ".visual." not in name
    }
    trunk = {name: value for name, value in tensors.items() if not name.startswith("mtp.")}
    made.trunk.load_state_dict(trunk)
    made.mtp.load_state_dict(_merged(tensors, config.num_experts))
    return made.eval()


def _merged(tensors: dict[str, Any], n_expert: int) -> dict[str, Any]:
    """The draft head's tensors with its experts in two, as transformers' layer holds them."""
    out = {
        name.removeprefix("mtp."): value
        for name, value in tensors.items()
        if name.startswith("mtp.") and ".experts." not in name
    }
    stem = "layers.0.mlp.experts."

    def part(expert: int, name: str) -> Any:
        return tensors[f"mtp.{stem}{expert}.{name}_proj.weight"]

    experts = range(n_expert)
    out[f"{stem}gate_up_proj"] = torch.stack(
        [torch.cat([part(e, "gate"), part(e, "up")]) for e in experts]
    )
    out[f"{stem}down_proj"] = torch.stack([part(e, "down") for e in experts])
    return out


def draft_logits(model: Any, token_ids: I64) -> F32:
    """The draft's logits over a sequence, float32 [n_tok - 1, n_vocab]."""
    ids = torch.from_numpy(np.asarray(token_ids, np.int64))[None]
    with torch.no_grad():
        rows = model.draft_logits(ids, model.hidden(ids)[0])[0]
    return np.asarray(rows.numpy(), np.float32)
