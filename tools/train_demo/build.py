"""Family name to network: the one place that knows both."""

import torch

from tools.train_demo import gpt_oss, qwen
from tools.train_demo.family import Name
from tools.train_demo.network import Network

N_VOCAB: dict[Name, int] = {"qwen35moe": qwen.N_VOCAB, "gpt-oss": gpt_oss.N_VOCAB}
DEFAULT_STEPS: dict[Name, int] = {"qwen35moe": 1800, "gpt-oss": 2400}


def make_network(name: Name) -> Network:
    """The family's demonstration network with fresh weights from torch's random state."""
    network: Network
    if name == "qwen35moe":
        network = qwen.QwenNetwork(qwen.make_config())
    else:
        network = gpt_oss.GptOssNetwork(gpt_oss.make_config())
    for parameter in dict(network.named_parameters()).values():
        assert parameter.dtype == torch.float32, "masters are kept in float32"
    return network
