"""The small qwen35moe: its sizes, and a forward pass for training over transformers' own weights.

transformers' `Qwen3_5MoeForCausalLM` holds the trunk's weights under their published names; this
file computes the same numbers faster, in bfloat16 products with float32 sums, and adds the MTP
draft head that transformers lacks (`mtp.*`, one attention layer).
"""

from typing import Any

import torch
import torch.nn.functional as F
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as hf

from tools.train_demo.delta_rule import CHUNK, gated_delta_rule
from tools.train_demo.experts import balance_loss, mix_experts
from tools.train_demo.head_loss import head_loss
from tools.train_demo.network import Loss

N_VOCAB = 2560
MTP_WEIGHT = 0.2
MTP_SHARE = 2
"""Every second row of a batch trains the draft head."""


def make_config(**changes: Any) -> Qwen3_5MoeTextConfig:
    """The demonstration model's config; `changes` for smaller ones in tests."""
    sizes: dict[str, Any] = {
        "vocab_size": N_VOCAB,
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "full_attention_interval": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 128,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [3, 3, 2],
        },
    }
    config = Qwen3_5MoeTextConfig(**{**sizes, **changes})
    config.mtp_num_hidden_layers = 1
    config.mtp_use_dedicated_embeddings = False
    return config


class DraftHead(torch.nn.Module):  # type: ignore[misc]
    """The weights of `mtp.*` under their published names; norms hold their weight less one."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        attention = Qwen3_5MoeTextConfig(
            **{**config.to_dict(), "num_hidden_layers": 1, "layer_types": ["full_attention"]}
        )
        self.fc = torch.nn.Linear(2 * width, width, bias=False)
        self.pre_fc_norm_embedding = hf.Qwen3_5MoeRMSNorm(width, config.rms_norm_eps)
        self.pre_fc_norm_hidden = hf.Qwen3_5MoeRMSNorm(width, config.rms_norm_eps)
        self.layers = torch.nn.ModuleList([hf.Qwen3_5MoeDecoderLayer(attention, 0)])
        self.norm = hf.Qwen3_5MoeRMSNorm(width, config.rms_norm_eps)


class QwenNetwork(torch.nn.Module):  # type: ignore[misc]
    """Trunk and draft head, trained together."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.n_expert = config.num_experts
        self.is_cooling = False
        self.trunk = Qwen3_5MoeForCausalLM(config)
        self.mtp = DraftHead(config)
        _initialise(self)

    def hidden(self, ids: Any) -> tuple[Any, list[tuple[Any, Any]]]:
        """After the last norm [n_row, n_tok, D], and each layer's (probabilities, choice)."""
        model = self.trunk.model
        x = F.embedding(ids, model.embed_tokens.weight)
        rotation = self._rotation(x)
        routes = []
        for layer in model.layers:
            x, route = _layer(layer, x, rotation, self.config)
            routes.append(route)
        return _norm(x, model.norm), routes

    def logits(self, ids: Any) -> Any:
        """Scores of the next token, [n_row, n_tok, n_vocab] float32."""
        return self.trunk.lm_head(self.hidden(ids)[0]).float()

    def draft_logits(self, ids: Any, hidden: Any) -> Any:
        """Scores of the token after next, from the trunk's hidden states; [n_row, n_tok - 1, V]."""
        return self.trunk.lm_head(self._draft(ids, hidden)[0]).float()

    def loss(self, ids: Any, weights: Any) -> Loss:
        """The trunk's loss, and what is to be minimised: with balance and draft head.

        ids, weights [n_row, n_tok + 1].
        """
        hidden, routes = self.hidden(ids[:, :-1])
        output = self.trunk.lm_head.weight
        text = head_loss(hidden, output, ids[:, 1:], weights[:, 1:])
        some = slice(None, None, MTP_SHARE)
        draft_hidden, route = self._draft(ids[some, :-1], hidden[some])
        draft = head_loss(draft_hidden, output, ids[some, 2:], weights[some, 2:])
        balance = sum(balance_loss(*route) for route in [*routes, route])
        return Loss(text, text + MTP_WEIGHT * draft, balance, draft, [c for _, c in routes])

    def _draft(self, ids: Any, hidden: Any) -> tuple[Any, tuple[Any, Any]]:
        token = F.embedding(ids[:, 1:], self.trunk.model.embed_tokens.weight)
        head = self.mtp
        both = [_norm(token, head.pre_fc_norm_embedding)]
        both.append(_norm(hidden[:, :-1], head.pre_fc_norm_hidden))
        x = head.fc(torch.cat(both, -1)).float()
        x, route = _layer(head.layers[0], x, self._rotation(x), self.config)
        return _norm(x, head.norm), route

    def _rotation(self, x: Any) -> tuple[Any, Any]:
        positions = torch.arange(x.shape[1])[None]
        cos, sin = self.trunk.model.rotary_emb(x, positions)
        return cos[:, :, None], sin[:, :, None]


def _initialise(network: QwenNetwork) -> None:
    """Normal weights of a size that keeps each product's variance; norms, gates as published."""
    for name, value in network.named_parameters():
        if value.ndim < 2 or name.endswith("A_log"):
            continue
        std = 0.02 if "embed_tokens" in name else 0.5 * value.shape[-1] ** -0.5
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj", "down_proj.weight")):
            std *= 0.3
        torch.nn.init.normal_(value, std=std)
    for module in network.modules():
        if isinstance(module, hf.Qwen3_5MoeGatedDeltaNet):
            torch.nn.init.normal_(module.conv1d.weight, std=0.1)
            module.conv1d.weight.data[:, :, -1] += 0.7
            heads = module.num_v_heads
            module.A_log.data.copy_(torch.linspace(1.0, 8.0, heads).log())
            module.dt_bias.data.fill_(-3.5)


def _norm(x: Any, module: Any) -> Any:
    return F.rms_norm(x.float(), (x.shape[-1],), module.weight + 1.0, module.eps)


def _layer(layer: Any, x: Any, rotation: Any, config: Any) -> tuple[Any, tuple[Any, Any]]:
    mixed = _norm(x, layer.input_layernorm)
    if hasattr(layer, "linear_attn"):
        x = x + _delta_net(layer.linear_attn, mixed)
    else:
        x = x + _attention(layer.self_attn, mixed, rotation)
    y, route = _experts(layer.mlp, _norm(x, layer.post_attention_layernorm), config)
    return x + y, route


def _attention(module: Any, x: Any, rotation: Any) -> Any:
    d = module.head_dim
    query, gate = module.q_proj(x).unflatten(-1, (-1, 2 * d)).chunk(2, -1)
    query = _rotate(_norm(query.float(), module.q_norm), rotation)
    key = _rotate(_norm(module.k_proj(x).float().unflatten(-1, (-1, d)), module.k_norm), rotation)
    value = module.v_proj(x).unflatten(-1, (-1, d))
    n = module.num_key_value_groups
    key, value = (part.repeat_interleave(n, dim=2) for part in (key, value))
    parts = [part.to(value.dtype).transpose(1, 2) for part in (query, key, value)]
    y = F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2)
    return module.o_proj((y * gate.sigmoid()).flatten(2))


def _rotate(x: Any, rotation: tuple[Any, Any]) -> Any:
    cos, sin = rotation
    turned, kept = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    low, high = turned.chunk(2, -1)
    return torch.cat([turned * cos + torch.cat([-high, low], -1) * sin, kept], -1)


def _delta_net(module: Any, x: Any) -> Any:
    s = module.head_k_dim
    mixed = module.in_proj_qkv(x).float().transpose(1, 2)
    n_pad = module.conv_kernel_size - 1
    mixed = F.conv1d(F.pad(mixed, (n_pad, 0)), module.conv1d.weight, groups=module.conv_dim)
    mixed = F.silu(mixed).transpose(1, 2).unflatten(-1, (-1, s))
    n = module.num_k_heads
    query, key, value = mixed.split([n, n, module.num_v_heads], 2)
    with torch.autocast("cpu", enabled=False):
        beta = F.linear(x, module.in_proj_b.weight).sigmoid()
        step = F.linear(x, module.in_proj_a.weight) + module.dt_bias
        decay = -module.A_log.exp() * F.softplus(step)
        query, key = (_unit(part) for part in (query, key))
        n_pad = -x.shape[1] % CHUNK
        parts = (query * s**-0.5, key, value, decay, beta)
        y = gated_delta_rule(*(_pad_tokens(part, n_pad) for part in parts))[:, : x.shape[1]]
        y = F.rms_norm(y, (s,), module.norm.weight, module.norm.variance_epsilon)
    z = module.in_proj_z(x).unflatten(-1, (-1, s))
    return module.out_proj((y * F.silu(z)).flatten(2))


def _unit(x: Any) -> Any:
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def _pad_tokens(x: Any, n_pad: int) -> Any:
    return F.pad(x, (0, 0) * (x.ndim - 2) + (0, n_pad)) if n_pad else x


def _experts(module: Any, x: Any, config: Any) -> tuple[Any, tuple[Any, Any]]:
    flat = x.flatten(0, 1)
    with torch.autocast("cpu", enabled=False):
        probabilities = F.linear(flat, module.gate.weight).softmax(-1)
    share, chosen = probabilities.topk(config.num_experts_per_tok, -1)
    share = share / share.sum(-1, keepdim=True)
    flat = flat.to(torch.get_autocast_dtype("cpu")) if torch.is_autocast_enabled("cpu") else flat
    experts = module.experts
    routed = mix_experts(
        flat, chosen, share, experts.gate_up_proj, experts.down_proj, lambda h, _: _swiglu(h)
    )
    one = module.shared_expert
    shared = one.down_proj(F.silu(one.gate_proj(flat)) * one.up_proj(flat))
    y = routed + module.shared_expert_gate(flat).sigmoid() * shared
    return y.view(x.shape).float(), (probabilities, chosen)


def _swiglu(hidden: Any) -> Any:
    gate, up = hidden.chunk(2, -1)
    return F.silu(gate) * up
