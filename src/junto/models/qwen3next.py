"""Qwen3-Next (`qwen3next`): Gated-DeltaNet and gated attention 3:1, and many small experts.

    x = x + mix(rms_norm(x, attn_norm))              mix: DeltaNet or attention, by layer
    x = x + moe(rms_norm(x, post_attention_norm))    routed experts and a gated shared one
    logits = output @ rms_norm(x, output_norm)

Notable: computes what Qwen3.5-MoE computes, but its files store value heads grouped, GGUF's as
well: the value heads of a key head lie together. Rows are tiled as they are read; the columns of
`ssm_out` cannot be, inside blocks of quantised values, so its input is grouped again. Safetensors
fuse q, k, v and z of a key head, then the next key head's, and b and a likewise; old GGUFs keep the
first so (`ssm_in`), all keep the second (`ssm_ba`). All norms but DeltaNet's are minus one in
safetensors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from junto.cache import FLOAT32, Cache, KVName, KVType
from junto.formats.gguf_encoding import OutValue
from junto.formats.tensor import Tensor
from junto.models import hybrid
from junto.models.architecture import Names
from junto.models.draft_head import Draft, draft_input, draft_logits
from junto.models.feed_forward import (
    SharedExperts,
    refuse_other_gguf_routing,
    refuse_other_routing,
    routed_and_shared,
)
from junto.models.gated_attention import GatedAttention, gated_attention
from junto.models.gated_delta_net import (
    DeltaNet,
    conv,
    decay_rate,
    delta_heads,
    tiled,
    tiled_channels,
    tiled_rows,
)
from junto.models.hybrid import HybridConfig, Norms, Whole
from junto.models.keys import GGUF, HF, IGNORED_IN_CONFIG_JSON, Keys, written_sizes
from junto.models.layouts import I64, columns, stacked_rows
from junto.models.table import Source, Table, one, stored
from junto.ops.contract import Angles, Ops, Weight
from junto.ops.views import F32, I32, Batch, DeltaView

ARCHITECTURES = Names(gguf=("qwen3next",), hf=("Qwen3NextForCausalLM",))

KV_DEFAULT: KVName = "f16"


SIZES = {
    "n_expert": ("expert_count", "num_experts"),
    "n_expert_used": ("expert_used_count", "num_experts_per_tok"),
    "n_ff_exp": ("expert_feed_forward_length", "moe_intermediate_size"),
    "n_ff_shexp": ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
}
"""Sizes of the experts, and their names in GGUF metadata and in config.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(HybridConfig):
    """Sizes of one model; names as in GGUF."""

    n_expert: int
    n_expert_used: int
    n_ff_exp: int
    n_ff_shexp: int
    expert_weights_scale: float

    @property
    def n_value_per_key(self) -> int:
        """Value heads of a key head."""
        return self.ssm_n_head_v // self.ssm_n_head_k

    @property
    def n_qkvz(self) -> int:
        """Rows of the fused q, k, v and z."""
        return self.n_channel + self.ssm_inner

    @classmethod
    def from_gguf(cls, keys: Keys, n_vocab: int) -> "Config":
        """From GGUF metadata (keys under "qwen3next."); old files do not state the interval."""
        cfg = cls(
            expert_weights_scale=keys.number("expert_weights_scale", absent=1.0),
            **hybrid.fields_from_gguf(keys, n_vocab, interval=4),
            **keys.sizes(SIZES, GGUF),
        )
        keys.integer("feed_forward_length", absent=1)  # of the dense layers, which it has none of
        refuse_other_gguf_routing(keys)
        return _checked(cfg, keys)

    def gguf_keys(self) -> dict[str, OutValue]:
        """What `from_gguf` reads."""
        return {
            **hybrid.fields_as_gguf(self, sectioned=False),
            **written_sizes(SIZES, self),
        }

    @classmethod
    def from_hf(cls, keys: Keys) -> "Config":
        """From config.json."""
        cfg = cls(
            expert_weights_scale=1.0,
            **hybrid.fields_from_hf(keys),
            **keys.sizes(SIZES, HF),
        )
        refuse_other_routing(keys)
        return _checked(cfg, keys)


IGNORED_KEYS = IGNORED_IN_CONFIG_JSON | {"intermediate_size"}
"""Keys of config.json that say nothing about the arithmetic; the last is of dense layers."""


def _checked(cfg: Config, keys: Keys) -> Config:
    cfg.check(keys)
    keys.check_experts(cfg.n_expert_used, cfg.n_expert)
    return cfg


def _fused_rows(cfg: Config) -> list[I64]:
    """Rows of q, k, v and z among the fused ones, value heads tiled."""
    S, n_key, r = cfg.ssm_state, cfg.ssm_n_head_k, cfg.n_value_per_key
    by_key = np.arange(cfg.n_qkvz).reshape(n_key, -1)
    q, k, v, z = np.split(by_key, np.cumsum([S, S, r * S]), axis=1)
    values = (part.reshape(n_key, r, S).swapaxes(0, 1) for part in (v, z))
    return [part.reshape(-1) for part in (q, k, *values)]


def _qkv_rows(cfg: Config) -> I64:
    return np.concatenate(_fused_rows(cfg)[:3])


def _z_rows(cfg: Config) -> I64:
    return _fused_rows(cfg)[3]


def _beta_rows(cfg: Config) -> I64:
    """Rows of beta among the fused ones: beta's of a key head, then alpha's, and so on; tiled."""
    by_key = np.arange(2 * cfg.ssm_n_head_v).reshape(cfg.ssm_n_head_k, -1)
    return by_key[:, : cfg.n_value_per_key].T.reshape(-1)


def _alpha_rows(cfg: Config) -> I64:
    return _beta_rows(cfg) + cfg.n_value_per_key


def _rows(name: str, shape: str, rows: Callable[[Config], I64]) -> Source:
    return one(name, shape, lambda cfg, t: t[rows(cfg)])


def _reordered(name: str, shape: str, rows: Callable[[Config], I64]) -> Source:
    """The same where `rows` are all rows, so that there is a way back."""
    return one(
        name, shape, lambda cfg, t: t[rows(cfg)], lambda cfg, ours: ours[np.argsort(rows(cfg))]
    )


def _fused_again(cfg: Config, beta: Tensor, alpha: Tensor) -> Tensor:
    rows = np.concatenate([_beta_rows(cfg), _alpha_rows(cfg)])
    return stacked_rows(beta, alpha)[np.argsort(rows)]


def _beta_or_alpha(rows: Callable[[Config], I64]) -> Source:
    return one("ssm_ba.weight", BA, lambda cfg, t: t[rows(cfg)], _fused_again)


def _grouped_vector(cfg: Config, vector: Tensor) -> Tensor:
    return columns(vector, np.argsort(tiled(cfg)))


def _tiled_vector(cfg: Config, vector: Tensor) -> Tensor:
    return columns(vector, tiled(cfg))


QKVZ, BA = "n_qkvz, n_embd", "2*ssm_n_head_v, n_embd"
"""Shapes of the fused matrices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayer(Norms, GatedAttention, SharedExperts):
    """A layer that mixes by gated attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLayer(Norms, DeltaNet, SharedExperts):
    """A layer that mixes by the gated delta rule, stored in another way than Qwen3.5's."""

    attn_qkv: Weight = stored(
        "n_channel, n_embd",
        gguf=(
            _reordered("attn_qkv.weight", "n_channel, n_embd", tiled_channels),
            _rows("ssm_in.weight", QKVZ, _qkv_rows),
        ),
        hf=_rows("linear_attn.in_proj_qkvz.weight", QKVZ, _qkv_rows),
    )
    attn_gate: Weight = stored(
        "ssm_inner, n_embd",
        gguf=(
            _reordered("attn_gate.weight", "ssm_inner, n_embd", tiled_rows),
            _rows("ssm_in.weight", QKVZ, _z_rows),
        ),
        hf=_rows("linear_attn.in_proj_qkvz.weight", QKVZ, _z_rows),
    )
    ssm_beta: Weight = stored(
        "ssm_n_head_v, n_embd",
        gguf=_beta_or_alpha(_beta_rows),
        hf=_rows("linear_attn.in_proj_ba.weight", BA, _beta_rows),
    )
    ssm_alpha: Weight = stored(
        "ssm_n_head_v, n_embd",
        gguf=_beta_or_alpha(_alpha_rows),
        hf=_rows("linear_attn.in_proj_ba.weight", BA, _alpha_rows),
    )
    ssm_a: F32 = stored(
        "ssm_n_head_v",
        gguf=one("ssm_a", convert=_tiled_vector, join=_grouped_vector),
        hf=one("linear_attn.A_log", convert=decay_rate),
    )
    ssm_dt: F32 = stored(
        "ssm_n_head_v",
        gguf=one("ssm_dt.bias", convert=_tiled_vector, join=_grouped_vector),
        hf=one("linear_attn.dt_bias", convert=_tiled_vector),
    )
    ssm_conv1d: F32 = stored(
        "n_channel, n_tap",
        gguf=_reordered("ssm_conv1d.weight", "n_channel, n_tap", tiled_channels),
        hf=one("linear_attn.conv1d.weight", "n_channel, 1, n_tap", conv),
    )
    ssm_out: Weight = stored("n_embd, ssm_inner", hf="linear_attn.out_proj.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLayer(AttentionLayer, Draft):
    """The attention layer that guesses the token after the next."""


TENSORS = Table(
    whole=Whole,
    layer=lambda cfg, i: AttentionLayer if cfg.is_attention[i] else DeltaLayer,
    hf_prefixes=("model.",),
    ignored=hybrid.ignored,
    draft=DraftLayer,
)


def make_cache(cfg: Config, n_slot: int, n_ctx: int, kv: KVType = FLOAT32) -> Cache:
    """KV blocks for the attention layers, the draft's among them; anchored states for others."""
    return Cache(cfg.states, n_slot=n_slot, n_ctx=n_ctx, kv=kv)


def forward(cfg: Config, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
    """Logits [n_logit, n_vocab] of the rows the batch asks for."""
    x = trunk(cfg, weights, ops, batch, cache)[batch.logit_rows]
    return hybrid.logits(cfg, weights.whole, ops, x)


def trunk(cfg: Config, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
    """The residual stream behind the last layer, [n_tok, n_embd]."""
    x = ops.embed(weights.whole.token_embd, batch.token_ids)
    angles = ops.angles(batch.positions, cfg.rotation)
    for i in range(cfg.n_layer):
        x = block(cfg, i, weights.layers[i], ops, x, angles, batch, cache)
    return x


def block(
    cfg: Config, i: int, w: Any, ops: Ops, x: F32, angles: Angles, batch: Batch, cache: Cache
) -> F32:
    """Layer i: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    h = ops.rms_norm(x, w.attn_norm, cfg.rms_eps)
    if isinstance(w, AttentionLayer):
        x = x + gated_attention(cfg, w, ops, h, angles, cache.kv(i, batch))
    else:
        x = x + delta_net(cfg, w, ops, h, cache.delta(i, batch))
    h = ops.rms_norm(x, w.post_attention_norm, cfg.rms_eps)
    return x + routed_and_shared(cfg, w, ops, h)


def draft(
    cfg: Config, weights: Any, ops: Ops, x: F32, next_ids: I32, batch: Batch, cache: Cache
) -> F32:
    """Logits [n_tok, n_vocab] of the tokens after `next_ids` [n_tok], which follow the batch's."""
    angles = ops.angles(batch.positions, cfg.rotation)
    h = draft_input(cfg, weights, ops, x, next_ids)
    h = block(cfg, cfg.n_layer, weights.draft, ops, h, angles, batch, cache)
    return draft_logits(cfg, weights, ops, h)


def delta_net(cfg: Config, w: DeltaLayer, ops: Ops, x: F32, delta: DeltaView) -> F32:
    """DeltaNet with its heads grouped for `ssm_out`: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    y = delta_heads(cfg, w, ops, x, delta)  # [n_tok, ssm_n_head_v, S], tiled
    by_key = y.reshape(len(x), cfg.n_value_per_key, cfg.ssm_n_head_k, cfg.ssm_state)
    return ops.linear(by_key.swapaxes(1, 2).reshape(len(x), -1), w.ssm_out)
