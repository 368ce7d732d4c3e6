"""The small gpt-oss: its sizes, and a forward pass for training over transformers' own weights.

transformers' `GptOssForCausalLM` holds the weights under their published (bfloat16-form) names;
this file computes the same numbers faster, and while the learning rate falls it sees the experts as
the MXFP4 values they will be shipped as.
"""

from typing import Any

import torch
import torch.nn.functional as F
from transformers import GptOssConfig, GptOssForCausalLM

from tools.train_demo.experts import balance_loss, mix_experts
from tools.train_demo.head_loss import head_loss
from tools.train_demo.mxfp4 import straight_through
from tools.train_demo.network import Loss

N_VOCAB = 2560
ALPHA, LIMIT = 1.702, 7.0


def make_config(**changes: Any) -> GptOssConfig:
    """The demonstration model's config; `changes` for smaller ones in tests."""
    sizes: dict[str, Any] = {
        "vocab_size": N_VOCAB,
        "hidden_size": 256,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "num_local_experts": 16,
        "num_experts_per_tok": 4,
        "intermediate_size": 64,
        "sliding_window": 128,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 150000.0,
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
        },
    }
    return GptOssConfig(**{**sizes, **changes})


class GptOssNetwork(torch.nn.Module):  # type: ignore[misc]
    """transformers' weights with a faster forward pass."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.n_expert = config.num_local_experts
        self.trunk = GptOssForCausalLM(config)
        self.is_cooling = False
        _initialise(self)

    def hidden(self, ids: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """After the last norm [n_row, n_tok, D], and each layer's (probabilities, choice)."""
        model = self.trunk.model
        x = F.embedding(ids, model.embed_tokens.weight)
        cos, sin = model.rotary_emb(x, torch.arange(ids.shape[1])[None])
        rotation = (cos[:, :, None], sin[:, :, None])
        routes = []
        for layer in model.layers:
            x = x + _attention(layer.self_attn, _norm(x, layer.input_layernorm), rotation)
            y, route = self._experts(layer.mlp, _norm(x, layer.post_attention_layernorm))
            x = x + y
            routes.append(route)
        return _norm(x, model.norm), routes

    def logits(self, ids: Any) -> Any:
        """Scores of the next token, [n_row, n_tok, n_vocab] float32."""
        return self.trunk.lm_head(self.hidden(ids)[0]).float()

    def loss(self, ids: Any, weights: Any) -> Loss:
        """The loss over rows of tokens [n_row, n_tok + 1] with the weight of each."""
        hidden, routes = self.hidden(ids[:, :-1])
        text = head_loss(hidden, self.trunk.lm_head.weight, ids[:, 1:], weights[:, 1:])
        balance = sum(balance_loss(*route) for route in routes)
        return Loss(text, text, balance, None, [chosen for _, chosen in routes])

    def _experts(self, module: Any, x: Any) -> tuple[Any, tuple[Any, Any]]:
        flat = x.flatten(0, 1)
        with torch.autocast("cpu", enabled=False):
            scores = F.linear(flat, module.router.weight, module.router.bias)
        best, chosen = scores.topk(self.config.num_experts_per_tok, -1)
        share = best.softmax(-1)
        experts = module.experts
        first, second = experts.gate_up_proj, experts.down_proj
        if self.is_cooling:
            first, second = straight_through(first, 1), straight_through(second, 1)
        half = torch.is_autocast_enabled("cpu")
        flat = flat.to(torch.get_autocast_dtype("cpu")) if half else flat

        def activate(hidden: Any, expert: Any) -> Any:
            bias = experts.gate_up_proj_bias.to(hidden.dtype)
            return _swiglu(hidden + _rows(bias, expert))

        y = mix_experts(flat, chosen, share, first.mT, second.mT, activate).float()
        dense = torch.zeros_like(scores).scatter(1, chosen, share)
        y = y + F.linear(dense, experts.down_proj_bias.T)
        return y.view(x.shape).float(), (scores.softmax(-1), chosen)


def _rows(table: Any, index: Any) -> Any:
    """table[index] with a backward pass that is a product, not a scatter."""
    return F.one_hot(index, len(table)).to(table.dtype) @ table


def _initialise(network: GptOssNetwork) -> None:
    for name, value in network.named_parameters():
        if name.endswith("sinks") or "bias" in name:
            torch.nn.init.zeros_(value)
        elif value.ndim >= 2:
            n_in = value.shape[-2] if value.ndim == 3 else value.shape[-1]
            std = 0.02 if "embed_tokens" in name else 0.5 * n_in**-0.5
            if name.endswith(("o_proj.weight", "down_proj")):
                std *= 0.3
            torch.nn.init.normal_(value, std=std)


def _norm(x: Any, module: Any) -> Any:
    return F.rms_norm(x, (x.shape[-1],), module.weight, module.variance_epsilon)


def _attention(module: Any, x: Any, rotation: Any) -> Any:
    """Attention whose sinks are one more key, with value zero, that every query sees."""
    d, window = module.head_dim, module.sliding_window
    query = _rotate(module.q_proj(x).unflatten(-1, (-1, d)), rotation)
    key = _rotate(module.k_proj(x).unflatten(-1, (-1, d)), rotation)
    value = module.v_proj(x).unflatten(-1, (-1, d))
    n = module.num_key_value_groups
    key, value = (part.repeat_interleave(n, dim=2) for part in (key, value))
    mask = _visible(x.shape[1], window)
    if window is not None and x.shape[1] % window == 0:
        query, key, value, mask = _in_windows(query, key, value, window)
    sink = F.pad((module.sinks / module.scaling).to(key.dtype)[None, None, :, None], (d, 7))
    query = F.pad(F.pad(query, (0, 1), value=1.0), (0, 7))
    key = torch.cat([F.pad(key, (0, 8)), sink.expand(len(key), -1, -1, -1)], 1)
    value = F.pad(value, (0, 8, 0, 0, 0, 1))
    y = F.scaled_dot_product_attention(
        *(part.float().transpose(1, 2) for part in (query, key, value)),
        attn_mask=F.pad(mask, (0, 1), value=True),
        scale=module.scaling,
    )
    return module.o_proj(y[..., :d].transpose(1, 2).flatten(2).view(*x.shape[:2], -1))


def _visible(n_tok: int, window: int | None) -> Any:
    mask = torch.ones(n_tok, n_tok, dtype=torch.bool).tril()
    return mask if window is None else mask.triu(1 - window)


def _in_windows(query: Any, key: Any, value: Any, window: int) -> tuple[Any, Any, Any, Any]:
    """Rows cut into windows, each with its own keys and those of the window before.

    From [n_row, n_tok, H, d] to queries [n_row * n, window, H, d], keys and values with 2 * window,
    and the mask [n_row * n, 1, window, 2 * window].
    """
    n_row, n_window = len(query), query.shape[1] // window
    pairs = [_with_earlier(part.unflatten(1, (-1, window))) for part in (key, value)]
    mask = torch.ones(window, 2 * window, dtype=torch.bool).triu(1).tril(window)
    mask = mask.expand(n_window, 1, -1, -1).clone()
    mask[0, :, :, :window] = False
    return (query.unflatten(1, (-1, window)).flatten(0, 1), *pairs, mask.repeat(n_row, 1, 1, 1))


def _with_earlier(blocks: Any) -> Any:
    earlier = F.pad(blocks[:, :-1], (0, 0, 0, 0, 0, 0, 1, 0))
    return torch.cat([earlier, blocks], 2).flatten(0, 1)


def _rotate(x: Any, rotation: tuple[Any, Any]) -> Any:
    cos, sin = (part.to(x.dtype) for part in rotation)
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def _swiglu(hidden: Any) -> Any:
    gate, up = hidden[..., ::2].clamp(max=LIMIT), hidden[..., 1::2].clamp(-LIMIT, LIMIT)
    return (up + 1) * gate * torch.sigmoid(ALPHA * gate)
