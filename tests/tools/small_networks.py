"""Both families' networks with sizes for tests: no two equal where the architecture allows it."""

from typing import Any

import torch

from tools.train_demo import gpt_oss, qwen
from tools.train_demo.family import Name

N_VOCAB = 300
QWEN = {
    "vocab_size": N_VOCAB,
    "hidden_size": 64,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 3,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "num_experts": 7,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000_000,
        "partial_rotary_factor": 0.25,
        "mrope_interleaved": True,
        "mrope_section": [2, 1, 1],
    },
}
GPT_OSS = {
    "vocab_size": N_VOCAB,
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_local_experts": 7,
    "num_experts_per_tok": 3,
    "intermediate_size": 64,
    "sliding_window": 32,
}


def small_network(name: Name) -> Any:
    """A network whose norms, biases and sinks are random too, so that each one counts."""
    torch.set_num_threads(1)
    torch.manual_seed(5)
    network: Any
    if name == "qwen35moe":
        network = qwen.QwenNetwork(qwen.make_config(**QWEN))
    else:
        network = gpt_oss.GptOssNetwork(gpt_oss.make_config(**GPT_OSS))
    with torch.no_grad():
        for value in network.parameters():
            if value.ndim == 1:
                value.add_(0.3 * torch.randn_like(value))
    return network.eval()


def tokens(n_row: int, n_tok: int) -> Any:
    """Random ids [n_row, n_tok]."""
    return torch.randint(0, N_VOCAB, (n_row, n_tok), generator=torch.Generator().manual_seed(7))
