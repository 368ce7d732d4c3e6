"""Qwen3.5-MoE (`qwen35moe`): Gated-DeltaNet and gated attention 3:1, and many small experts.

    x = x + mix(rms_norm(x, attn_norm))              mix: DeltaNet or attention, by layer
    x = x + moe(rms_norm(x, post_attention_norm))    routed experts and a gated shared one
    logits = output @ rms_norm(x, output_norm)

Notable: attention outputs are gated by a sigmoid that shares `attn_q`'s matrix, head by head; only
the first part of each head turns (NEOX pairs); safetensors store all norms but DeltaNet's minus
one; GGUF stores value heads tiled (value head h reads key head h % n_head_k), safetensors grouped.
The three position rows of the multi-section rotary embedding are equal for text, which makes it a
plain one; other positions are not supported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from junto.cache import FLOAT32, AttentionState, Cache, DeltaState, KVName, KVType, LayerState
from junto.formats.tensor import Tensor
from junto.models.architecture import Names
from junto.models.keys import GGUF, HF, IGNORED_IN_CONFIG_JSON, N_LAYER_MAX, Keys
from junto.models.layouts import columns, each, float32_map, plus_one, reshape
from junto.models.table import Dialect, Ignored, Table, one, stored
from junto.ops.contract import Angles, Ops, Rotation, SwiGLU, Weight
from junto.ops.rotary import plain_frequencies
from junto.ops.views import F32, Batch, DeltaView, KVView

ARCHITECTURES = Names(
    gguf=("qwen35moe",),
    hf=("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
)

KV_DEFAULT: KVName = "f16"


SIZES = {
    "n_embd": ("embedding_length", "hidden_size"),
    "n_ctx_train": ("context_length", "max_position_embeddings"),
    "n_head": ("attention.head_count", "num_attention_heads"),
    "n_head_kv": ("attention.head_count_kv", "num_key_value_heads"),
    "head_dim": ("attention.key_length", "head_dim"),
    "n_expert": ("expert_count", "num_experts"),
    "n_expert_used": ("expert_used_count", "num_experts_per_tok"),
    "n_ff_exp": ("expert_feed_forward_length", "moe_intermediate_size"),
    "n_ff_shexp": ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    "ssm_state": ("ssm.state_size", "linear_key_head_dim"),
    "ssm_n_head_k": ("ssm.group_count", "linear_num_key_heads"),
    "ssm_n_head_v": ("ssm.time_step_rank", "linear_num_value_heads"),
    "n_tap": ("ssm.conv_kernel", "linear_conv_kernel_dim"),
}
"""Sizes of the model, and their names in GGUF metadata and in config.json."""


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of one model; names as in GGUF, `ssm_state` is the head size of DeltaNet."""

    n_layer: int
    n_nextn: int
    is_attention: tuple[bool, ...]
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_rot: int
    rope_theta: float
    n_expert: int
    n_expert_used: int
    n_ff_exp: int
    n_ff_shexp: int
    expert_weights_scale: float
    ssm_state: int
    ssm_n_head_k: int
    ssm_n_head_v: int
    n_tap: int
    rms_eps: float
    may_tie: bool

    @property
    def ssm_inner(self) -> int:
        """Outputs of all value heads."""
        return self.ssm_n_head_v * self.ssm_state

    @property
    def n_channel(self) -> int:
        """Channels of the convolution: q, k and v of DeltaNet."""
        return (2 * self.ssm_n_head_k + self.ssm_n_head_v) * self.ssm_state

    @property
    def rotation(self) -> Rotation:
        """Rotary embedding of the attention layers."""
        return Rotation(plain_frequencies(self.rope_theta, self.n_rot))

    def state(self, layer: int) -> LayerState:
        """What a layer remembers."""
        if self.is_attention[layer]:
            return AttentionState(self.n_head_kv, self.head_dim)
        return DeltaState(self.ssm_n_head_k, self.ssm_n_head_v, self.ssm_state, self.n_tap)

    @classmethod
    def from_gguf(cls, keys: Keys, n_vocab: int) -> "Config":
        """From GGUF metadata (keys under "qwen35moe.")."""
        n_nextn = keys.integer("nextn_predict_layers", low=0, high=16, absent=0)
        n_block = keys.integer("block_count", low=n_nextn + 1, high=N_LAYER_MAX)
        cfg = cls(
            n_layer=n_block - n_nextn,
            n_nextn=n_nextn,
            is_attention=_gguf_layers(keys, n_block)[: n_block - n_nextn],
            n_vocab=n_vocab,
            n_rot=keys.integer("rope.dimension_count"),
            rope_theta=keys.number("rope.freq_base", above=1),
            expert_weights_scale=keys.number("expert_weights_scale", absent=1.0),
            rms_eps=keys.number("attention.layer_norm_rms_epsilon"),
            may_tie=True,
            **keys.sizes(SIZES, GGUF),
        )
        keys.integers("rope.dimension_sections", absent=())
        keys.expect("rope.scaling.type", "none")
        keys.expect("attention.value_length", cfg.head_dim)
        keys.expect("expert_gating_func", 1)
        keys.expect("expert_weights_norm", True)
        keys.expect("ssm.inner_size", cfg.ssm_inner)
        return _checked(cfg, keys)

    @classmethod
    def from_hf(cls, keys: Keys) -> "Config":
        """From config.json, whose text model stands under `text_config` when it can see."""
        text = keys.section("text_config") if "text_config" in keys else keys
        rope = text.section("rope_parameters") if "rope_parameters" in text else text
        tie = text if "tie_word_embeddings" in text else keys
        n_layer = text.integer("num_hidden_layers", high=N_LAYER_MAX)
        cfg = cls(
            n_layer=n_layer,
            n_nextn=text.integer("mtp_num_hidden_layers", low=0, high=16, absent=0),
            is_attention=_hf_layers(text, n_layer),
            n_vocab=text.integer("vocab_size"),
            n_rot=int(text.integer("head_dim") * rope.number("partial_rotary_factor")),
            rope_theta=rope.number("rope_theta", above=1),
            expert_weights_scale=1.0,
            rms_eps=text.number("rms_norm_eps"),
            may_tie=tie.flag("tie_word_embeddings", absent=False),
            **text.sizes(SIZES, HF),
        )
        text.expect("linear_value_head_dim", cfg.ssm_state)
        keys.expect("quantization_config")
        _refuse_unknown_values(text, rope)
        return _checked(cfg, text)


IGNORED_KEYS = IGNORED_IN_CONFIG_JSON | {
    "image_token_id",
    "mamba_ssm_dtype",
    "mtp_use_dedicated_embeddings",
    "video_token_id",
    "vision_config",
    "vision_end_token_id",
    "vision_start_token_id",
}
"""Keys of config.json that say nothing about the text model's arithmetic."""


def _gguf_layers(keys: Keys, n_block: int) -> tuple[bool, ...]:
    if "attention.recurrent_layers" in keys:
        recurrent = keys.integers("attention.recurrent_layers")
        if len(recurrent) != n_block:
            raise keys.refuse(f"recurrent_layers has {len(recurrent)} entries for {n_block} blocks")
        return tuple(not r for r in recurrent)
    interval = keys.integer("full_attention_interval")
    return tuple((i + 1) % interval == 0 for i in range(n_block))


def _hf_layers(text: Keys, n_layer: int) -> tuple[bool, ...]:
    interval = text.integer("full_attention_interval", absent=4)
    if "layer_types" not in text:
        return tuple((i + 1) % interval == 0 for i in range(n_layer))
    types = text.layer_types(n_layer, ("linear_attention", "full_attention"))
    return tuple(t == "full_attention" for t in types)


def _refuse_unknown_values(text: Keys, rope: Keys) -> None:
    text.expect("hidden_act", "silu")
    text.expect("attention_bias", False)
    text.expect("attn_output_gate", True)
    text.expect("mlp_only_layers", [])
    text.expect("decoder_sparse_step", 1)
    text.expect("norm_topk_prob", True)
    text.expect("quantization_config")
    older = rope is text and "rope_scaling" in text
    kind = text.section("rope_scaling") if older else rope
    kind.expect("type", "default", "mrope")
    kind.expect("rope_type", "default", "mrope")
    kind.expect("mrope_interleaved", True)
    kind.integers("mrope_section", absent=())


def _checked(cfg: Config, keys: Keys) -> Config:
    """Refuse sizes that do not divide or do not fit each other."""
    keys.check_ratio("n_head / n_head_kv", cfg.n_head, cfg.n_head_kv)
    heads = "DeltaNet's value heads / key heads"
    keys.check_ratio(heads, cfg.ssm_n_head_v, cfg.ssm_n_head_k)
    keys.check_experts(cfg.n_expert_used, cfg.n_expert)
    keys.check_state(cfg.is_attention.count(False), cfg.ssm_n_head_v, cfg.ssm_state)
    if cfg.n_rot % 2 or not 2 <= cfg.n_rot <= cfg.head_dim:
        raise keys.refuse(
            f"{cfg.n_rot} rotary dimensions, expected an even number from 2 to head_dim = "
            f"{cfg.head_dim}"
        )
    return cfg


def _tiled(cfg: Config) -> np.ndarray:
    """Grouped value head that stands at each place of the tiled order."""
    grouped = np.arange(cfg.ssm_n_head_v).reshape(cfg.ssm_n_head_k, -1)
    return grouped.T.reshape(-1)


def _tiled_rows(cfg: Config) -> np.ndarray:
    """The same for single outputs of the value heads."""
    return (_tiled(cfg)[:, None] * cfg.ssm_state + np.arange(cfg.ssm_state)).reshape(-1)


def _tiled_channels(cfg: Config) -> np.ndarray:
    """The same for the channels of q, k and v: only v moves."""
    n_qk = 2 * cfg.ssm_n_head_k * cfg.ssm_state
    return np.concatenate([np.arange(n_qk), n_qk + _tiled_rows(cfg)])


def _decay_rate(cfg: Config, a_log: Tensor) -> Tensor:
    return float32_map(columns(a_log, _tiled(cfg)), lambda a: -np.exp(a))


def _conv(cfg: Config, conv: Tensor) -> Tensor:
    return reshape(conv, (cfg.n_channel, cfg.n_tap))[_tiled_channels(cfg)]


def _gate_or_up(part: str, rows: Callable[[Config], slice]) -> Any:
    """Gate or up of all experts: merged, fused (gate rows first), or one by one."""

    def split(cfg: Config, fused: Tensor) -> Any:
        return each(fused, lambda expert: expert[rows(cfg)])

    fused, single = "n_expert, 2*n_ff_exp, n_embd", "n_ff_exp, n_embd"
    return stored(
        "n_expert, n_ff_exp, n_embd",
        gguf=(
            one(f"ffn_{part}_exps.weight"),
            one("ffn_gate_up_exps.weight", fused, split),
            one(f"ffn_{part}.{{e}}.weight", single),
        ),
        hf=(
            one("mlp.experts.gate_up_proj", fused, split),
            one(f"mlp.experts.{{e}}.{part}_proj.weight", single),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What every layer has: two norms, the router, the experts and the shared expert."""

    attn_norm: F32 = stored("n_embd", hf=one("input_layernorm.weight", convert=plus_one))
    post_attention_norm: F32 = stored(
        "n_embd", hf=one("post_attention_layernorm.weight", convert=plus_one)
    )
    ffn_gate_inp: Weight = stored("n_expert, n_embd", hf="mlp.gate.weight")
    ffn_gate_exps: Weight = _gate_or_up("gate", lambda cfg: slice(0, cfg.n_ff_exp))
    ffn_up_exps: Weight = _gate_or_up("up", lambda cfg: slice(cfg.n_ff_exp, None))
    ffn_down_exps: Weight = stored(
        "n_expert, n_embd, n_ff_exp",
        gguf=(
            one("ffn_down_exps.weight"),
            one("ffn_down.{e}.weight", "n_embd, n_ff_exp"),
        ),
        hf=(
            one("mlp.experts.down_proj"),
            one("mlp.experts.{e}.down_proj.weight", "n_embd, n_ff_exp"),
        ),
    )
    ffn_gate_inp_shexp: Weight = stored(
        "1, n_embd",
        gguf=(
            one("ffn_gate_inp_shexp.weight", "n_embd", lambda cfg, t: reshape(t, (1, *t.shape))),
        ),
        hf="mlp.shared_expert_gate.weight",
    )
    ffn_gate_shexp: Weight = stored("n_ff_shexp, n_embd", hf="mlp.shared_expert.gate_proj.weight")
    ffn_up_shexp: Weight = stored("n_ff_shexp, n_embd", hf="mlp.shared_expert.up_proj.weight")
    ffn_down_shexp: Weight = stored("n_embd, n_ff_shexp", hf="mlp.shared_expert.down_proj.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayer(Layer):
    """A layer that mixes by gated attention."""

    attn_q: Weight = stored("2*n_head*head_dim, n_embd", hf="self_attn.q_proj.weight")
    attn_k: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.k_proj.weight")
    attn_v: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.v_proj.weight")
    attn_output: Weight = stored("n_embd, n_head*head_dim", hf="self_attn.o_proj.weight")
    attn_q_norm: F32 = stored("head_dim", hf=one("self_attn.q_norm.weight", convert=plus_one))
    attn_k_norm: F32 = stored("head_dim", hf=one("self_attn.k_norm.weight", convert=plus_one))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLayer(Layer):
    """A layer that mixes by the gated delta rule."""

    attn_qkv: Weight = stored(
        "n_channel, n_embd",
        hf=one("linear_attn.in_proj_qkv.weight", convert=lambda cfg, t: t[_tiled_channels(cfg)]),
    )
    attn_gate: Weight = stored(
        "ssm_inner, n_embd",
        hf=one("linear_attn.in_proj_z.weight", convert=lambda cfg, t: t[_tiled_rows(cfg)]),
    )
    ssm_beta: Weight = stored(
        "ssm_n_head_v, n_embd",
        hf=one("linear_attn.in_proj_b.weight", convert=lambda cfg, t: t[_tiled(cfg)]),
    )
    ssm_alpha: Weight = stored(
        "ssm_n_head_v, n_embd",
        hf=one("linear_attn.in_proj_a.weight", convert=lambda cfg, t: t[_tiled(cfg)]),
    )
    ssm_a: F32 = stored(
        "ssm_n_head_v", gguf="ssm_a", hf=one("linear_attn.A_log", convert=_decay_rate)
    )
    ssm_dt: F32 = stored(
        "ssm_n_head_v",
        gguf="ssm_dt.bias",
        hf=one("linear_attn.dt_bias", convert=lambda cfg, t: columns(t, _tiled(cfg))),
    )
    ssm_conv1d: F32 = stored(
        "n_channel, n_tap", hf=one("linear_attn.conv1d.weight", "n_channel, 1, n_tap", _conv)
    )
    ssm_norm: F32 = stored("ssm_state", hf="linear_attn.norm.weight")
    ssm_out: Weight = stored(
        "n_embd, ssm_inner",
        hf=one("linear_attn.out_proj.weight", convert=lambda cfg, t: columns(t, _tiled_rows(cfg))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The tensors outside the layers."""

    token_embd: Weight = stored("n_vocab, n_embd", hf="embed_tokens.weight")
    output_norm: F32 = stored("n_embd", hf=one("norm.weight", convert=plus_one))
    output: Weight | None = stored(
        "n_vocab, n_embd", hf="/lm_head.weight", may_lack=lambda cfg: cfg.may_tie
    )


def _ignored(cfg: Config, dialect: Dialect) -> tuple[Ignored, ...]:
    draft = "the draft head (speculative decoding is not built yet)"
    none = "its metadata promises a draft head that the file does not hold; running without"
    if dialect == "gguf":
        blocks = range(cfg.n_layer, cfg.n_layer + cfg.n_nextn)
        return tuple(Ignored(f"blk.{i}.*", draft, none) for i in blocks)
    tied = (Ignored("lm_head.weight", "the head is tied to the embedding"),) if cfg.may_tie else ()
    vision = Ignored("model.visual.*", "the vision tower (text only)")
    return (vision, Ignored("mtp.*", draft, none if cfg.n_nextn else ""), *tied)


TENSORS = Table(
    whole=Whole,
    layer=lambda cfg, i: AttentionLayer if cfg.is_attention[i] else DeltaLayer,
    hf_prefixes=("model.language_model.", "model."),
    ignored=_ignored,
)


def make_cache(cfg: Config, n_slot: int, n_ctx: int, kv: KVType = FLOAT32) -> Cache:
    """KV blocks for the attention layers, anchored states for the others."""
    return Cache([cfg.state(i) for i in range(cfg.n_layer)], n_slot=n_slot, n_ctx=n_ctx, kv=kv)


def forward(cfg: Config, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
    """Logits [n_logit, n_vocab] of the rows the batch asks for."""
    whole: Whole = weights.whole
    x = ops.embed(whole.token_embd, batch.token_ids)  # [n_tok, n_embd]
    angles = ops.angles(batch.positions, cfg.rotation)
    for i in range(cfg.n_layer):
        x = block(cfg, i, weights.layers[i], ops, x, angles, batch, cache)
    x = ops.rms_norm(x[batch.logit_rows], whole.output_norm, cfg.rms_eps)
    return ops.linear(x, whole.token_embd if whole.output is None else whole.output)


def block(
    cfg: Config, i: int, w: Any, ops: Ops, x: F32, angles: Angles, batch: Batch, cache: Cache
) -> F32:
    """Layer i: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    h = ops.rms_norm(x, w.attn_norm, cfg.rms_eps)
    if cfg.is_attention[i]:
        x = x + attention(cfg, w, ops, h, angles, cache.kv(i, batch))
    else:
        x = x + delta_net(cfg, w, ops, h, cache.delta(i, batch))
    return x + moe(cfg, w, ops, ops.rms_norm(x, w.post_attention_norm, cfg.rms_eps))


def attention(cfg: Config, w: AttentionLayer, ops: Ops, x: F32, angles: Angles, kv: KVView) -> F32:
    """Gated attention: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    n_tok = len(x)
    q_gate = ops.linear(x, w.attn_q).reshape(n_tok, cfg.n_head, 2 * cfg.head_dim)
    q, gate = q_gate[..., : cfg.head_dim], q_gate[..., cfg.head_dim :]
    k = ops.linear(x, w.attn_k).reshape(n_tok, cfg.n_head_kv, cfg.head_dim)
    v = ops.linear(x, w.attn_v).reshape(n_tok, cfg.n_head_kv, cfg.head_dim)
    q = ops.rope(ops.rms_norm(q, w.attn_q_norm, cfg.rms_eps), angles)
    k = ops.rope(ops.rms_norm(k, w.attn_k_norm, cfg.rms_eps), angles)
    y = ops.attention(q, k, v, kv, scale=cfg.head_dim**-0.5)
    return ops.linear(ops.sigmoid_gate(y, gate).reshape(n_tok, -1), w.attn_output)


def delta_net(cfg: Config, w: DeltaLayer, ops: Ops, x: F32, delta: DeltaView) -> F32:
    """Gated DeltaNet (arXiv 2412.06464): x [n_tok, n_embd] -> [n_tok, n_embd]."""
    n_tok, S = len(x), cfg.ssm_state
    qkv = ops.short_conv(ops.linear(x, w.attn_qkv), w.ssm_conv1d, delta)  # [n_tok, n_channel]
    q, k, v = np.split(qkv, np.cumsum([cfg.ssm_n_head_k * S] * 2), axis=1)
    decay, beta = ops.delta_gates(
        ops.linear(x, w.ssm_alpha), ops.linear(x, w.ssm_beta), w.ssm_a, w.ssm_dt
    )
    y = ops.gated_delta_rule(
        q.reshape(n_tok, -1, S),
        k.reshape(n_tok, -1, S),
        v.reshape(n_tok, -1, S),
        decay,
        beta,
        delta,
    )  # [n_tok, ssm_n_head_v, S]
    z = ops.linear(x, w.attn_gate).reshape(n_tok, -1, S)
    y = ops.gated_rms_norm(y, w.ssm_norm, z, cfg.rms_eps)
    return ops.linear(y.reshape(n_tok, -1), w.ssm_out)


def moe(cfg: Config, w: Layer, ops: Ops, x: F32) -> F32:
    """Routed experts and the gated shared expert: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    routing = ops.route(
        ops.linear(x, w.ffn_gate_inp),
        cfg.n_expert_used,
        softmax="all",
        scale=cfg.expert_weights_scale,
    )
    form = SwiGLU()
    routed = ops.experts(x, routing, w.ffn_gate_exps, w.ffn_up_exps, w.ffn_down_exps, form)
    h = ops.swiglu(ops.linear(x, w.ffn_gate_shexp), ops.linear(x, w.ffn_up_shexp), form)
    shared = ops.linear(h, w.ffn_down_shexp)
    return routed + ops.sigmoid_gate(shared, ops.linear(x, w.ffn_gate_inp_shexp))
