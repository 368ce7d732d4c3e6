"""Record what transformers computes for one layer of each kind at its real size.

    python -m tests.oracle.real_layers
    python -m tests.oracle.real_layers gpt_oss_full_attention      (only some)

Takes 4 GB of memory and about half a minute a layer. Writes
`tests/golden/transformers/real_<name>.npz`.
"""

import sys
from typing import Any

import numpy as np
import torch
import transformers
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssModel
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeTextModel

from tests.oracle.transformers_oracle import versions
from tests.tiny.real_layers import REAL_LAYERS, RealGolden, RealLayer

MODELS = {"gpt_oss": GptOssModel, "qwen3_5_moe_text": Qwen3_5MoeTextModel}


def build(layer: RealLayer) -> Any:
    """A transformers model of this one layer; its embedding and final norm stay unused."""
    settings = {k: v for k, v in layer.config.items() if k not in ("model_type", "architectures")}
    config = transformers.AutoConfig.for_model(layer.config["model_type"], **settings)
    config._attn_implementation = config._experts_implementation = "eager"
    kind = MODELS[layer.config["model_type"]]
    with torch.device("meta"):
        model = kind(config)
    model.rotary_emb = type(model.rotary_emb)(config)
    n_embd = layer.n_embd
    state = {"norm.weight": torch.zeros(n_embd), "embed_tokens.weight": torch.zeros(8, n_embd)}
    for name, make in layer.tensors().items():
        state[name.removeprefix("model.")] = torch.from_numpy(make())
    model.load_state_dict(state, assign=True, strict=True)
    return model.eval()


def run(layer: RealLayer) -> RealGolden:
    """Hidden states within and after the layer."""
    torch.set_num_threads(2)
    model = build(layer)
    seen: dict[str, torch.Tensor] = {}
    block = model.layers[0]

    def keep_input(_: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        seen["after_mix"] = inputs[0]

    def keep_output(_: Any, inputs: Any, output: torch.Tensor) -> None:
        seen["out"] = output

    block.post_attention_layernorm.register_forward_pre_hook(keep_input)
    block.register_forward_hook(keep_output)
    with torch.no_grad():
        model(inputs_embeds=torch.from_numpy(layer.input())[None], use_cache=False)
    rows = {name: states[0].numpy() for name, states in seen.items()}
    at = list(layer.positions)
    command = f"python -m tests.oracle.real_layers {layer.name}"
    made_by = {"command": command, "numpy": np.__version__, **versions()}
    return RealGolden(
        rows["after_mix"][at], rows["out"][at], float(np.abs(rows["out"]).max()), made_by
    )


def main() -> None:
    """Record the layers that the command line names, or all."""
    for name in sys.argv[1:] or REAL_LAYERS:
        layer = REAL_LAYERS[name]
        golden = run(layer)
        layer.save_golden(golden)
        n_bytes = layer.golden_path.stat().st_size
        spread = float(golden.out.std())
        print(f"{name}: {n_bytes:,} bytes, max |out| {golden.scale:.3f}, deviation {spread:.3f}")


if __name__ == "__main__":
    main()
