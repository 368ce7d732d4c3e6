"""gpt-oss (`gpt-oss`): MXFP4 experts, attention sinks, alternating sliding windows, biases.

    x = x + attn(rms_norm(x, attn_norm))
    x = x + moe(rms_norm(x, post_attention_norm))
    logits = output @ rms_norm(x, output_norm)

Notable: each head has a sink that joins its softmax and carries no value; even layers see 128
positions, odd ones all; RoPE is YaRN-scaled at every position, with the ramp's ends not rounded
(`truncate: false`); the router takes the top logits first and their softmax after; the experts'
SwiGLU is clamped. Publisher's safetensors interleave gate and up rows and pack MXFP4 nibbles in
pairs; its bf16 form is transposed. The residual stream overflows float16.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from junto.cache import FLOAT32, AttentionState, Cache, KVName, KVType
from junto.errors import ModelError
from junto.formats.gguf_encoding import OutValue
from junto.models.architecture import Names
from junto.models.keys import GGUF, HF, IGNORED_IN_CONFIG_JSON, N_LAYER_MAX, Keys, written_sizes
from junto.models.layouts import (
    Experts,
    columns,
    each,
    interleaved_columns,
    interleaved_rows,
    mxfp4,
    transposed,
)
from junto.models.table import Dialect, Ignored, Source, Table, one, stored
from junto.ops.contract import Angles, Ops, Rotation, SwiGLU, Weight
from junto.ops.rotary import YarnScaling
from junto.ops.views import F32, Batch, KVView

ARCHITECTURES = Names(gguf=("gpt-oss",), hf=("GptOssForCausalLM",))

KV_DEFAULT: KVName = "f16"

SWIGLU_ALPHA = 1.702
SWIGLU_LIMIT = 7.0


SIZES = {
    "n_embd": ("embedding_length", "hidden_size"),
    "n_ctx_train": ("context_length", "max_position_embeddings"),
    "n_head": ("attention.head_count", "num_attention_heads"),
    "n_head_kv": ("attention.head_count_kv", "num_key_value_heads"),
    "head_dim": ("attention.key_length", "head_dim"),
    "window": ("attention.sliding_window", "sliding_window"),
    "n_expert": ("expert_count", "num_local_experts"),
    "n_expert_used": ("expert_used_count", "num_experts_per_tok"),
    "n_ff_exp": ("expert_feed_forward_length", "intermediate_size"),
}
"""Sizes of the model, and their names in GGUF metadata and in config.json."""


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of one model; names as in GGUF."""

    n_layer: int
    is_sliding: tuple[bool, ...]
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    n_head: int
    n_head_kv: int
    head_dim: int
    window: int
    rope_theta: float
    yarn: YarnScaling
    n_expert: int
    n_expert_used: int
    n_ff_exp: int
    swiglu: SwiGLU
    rms_eps: float

    @property
    def n_block_embd(self) -> int:
        """MXFP4 blocks in a row of n_embd."""
        return -(-self.n_embd // 32)

    @property
    def n_block_ff(self) -> int:
        """MXFP4 blocks in a row of n_ff_exp."""
        return -(-self.n_ff_exp // 32)

    @property
    def rotation(self) -> Rotation:
        """Rotary embedding of all layers."""
        inv_freq = self.yarn.frequencies(self.rope_theta, self.head_dim)
        return Rotation(inv_freq, scale=self.yarn.magnitude)

    @classmethod
    def from_gguf(cls, keys: Keys, n_vocab: int) -> "Config":
        """From GGUF metadata (keys under "gpt-oss."); the file does not say what is constant."""
        n_layer = keys.integer("block_count", high=N_LAYER_MAX)
        cfg = cls(
            n_layer=n_layer,
            is_sliding=tuple(i % 2 == 0 for i in range(n_layer)),
            n_vocab=n_vocab,
            rope_theta=keys.number("rope.freq_base", above=1),
            yarn=YarnScaling(
                factor=keys.number("rope.scaling.factor"),
                n_ctx_original=keys.integer("rope.scaling.original_context_length"),
                beta_fast=keys.number("rope.scaling.yarn_beta_fast", absent=32.0),
                beta_slow=keys.number("rope.scaling.yarn_beta_slow", absent=1.0),
            ),
            swiglu=SwiGLU(SWIGLU_LIMIT, SWIGLU_ALPHA),
            rms_eps=keys.number("attention.layer_norm_rms_epsilon"),
            **keys.sizes(SIZES, GGUF),
        )
        keys.expect("attention.value_length", cfg.head_dim)
        keys.expect("rope.dimension_count", cfg.head_dim)
        keys.expect("feed_forward_length", cfg.n_ff_exp)
        keys.expect("rope.scaling.type", "yarn")
        return _checked(cfg, keys)

    def gguf_keys(self) -> dict[str, OutValue]:
        """What `from_gguf` reads; ModelError where this model is none a GGUF can describe."""
        usual = tuple(i % 2 == 0 for i in range(self.n_layer))
        stated = (self.is_sliding, self.swiglu, self.yarn.round_range)
        if stated != (usual, SwiGLU(SWIGLU_LIMIT, SWIGLU_ALPHA), False):
            raise ModelError(
                "gpt-oss: a GGUF cannot say which layers slide, how SwiGLU is clamped, or that "
                "YaRN's ramp is rounded, and this model's are not the usual ones"
            )
        return {
            "block_count": self.n_layer,
            **written_sizes(SIZES, self),
            "feed_forward_length": self.n_ff_exp,
            "attention.value_length": self.head_dim,
            "attention.layer_norm_rms_epsilon": self.rms_eps,
            "rope.dimension_count": self.head_dim,
            "rope.freq_base": self.rope_theta,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": self.yarn.factor,
            "rope.scaling.original_context_length": self.yarn.n_ctx_original,
            "rope.scaling.yarn_beta_fast": self.yarn.beta_fast,
            "rope.scaling.yarn_beta_slow": self.yarn.beta_slow,
        }

    def hf_config(self) -> dict[str, Any]:
        """What `from_hf` reads: the config.json of the bf16 form."""
        kinds = {True: "sliding_attention", False: "full_attention"}
        return {
            "architectures": list(ARCHITECTURES.hf),
            "attention_bias": True,
            "dtype": "bfloat16",
            "experts_per_token": self.n_expert_used,
            "hidden_act": "silu",
            "initial_context_length": self.yarn.n_ctx_original,
            "layer_types": [kinds[sliding] for sliding in self.is_sliding],
            "model_type": "gpt_oss",
            "num_hidden_layers": self.n_layer,
            "rms_norm_eps": self.rms_eps,
            "rope_scaling": {
                "beta_fast": self.yarn.beta_fast,
                "beta_slow": self.yarn.beta_slow,
                "factor": self.yarn.factor,
                "original_max_position_embeddings": self.yarn.n_ctx_original,
                "rope_type": "yarn",
                "truncate": self.yarn.round_range,
            },
            "rope_theta": self.rope_theta,
            "swiglu_limit": self.swiglu.limit,
            "tie_word_embeddings": False,
            "vocab_size": self.n_vocab,
            **{names[HF]: getattr(self, field) for field, names in SIZES.items()},
        }

    @classmethod
    def from_hf(cls, keys: Keys) -> "Config":
        """From config.json, with `rope_scaling` beside `rope_theta` or `rope_parameters`."""
        rope = keys.section("rope_parameters" if "rope_parameters" in keys else "rope_scaling")
        n_layer = keys.integer("num_hidden_layers", high=N_LAYER_MAX)
        cfg = cls(
            n_layer=n_layer,
            is_sliding=_hf_layers(keys, n_layer),
            n_vocab=keys.integer("vocab_size"),
            rope_theta=(rope if "rope_theta" in rope else keys).number("rope_theta", above=1),
            yarn=YarnScaling(
                factor=rope.number("factor"),
                n_ctx_original=rope.integer("original_max_position_embeddings"),
                beta_fast=rope.number("beta_fast"),
                beta_slow=rope.number("beta_slow"),
                round_range=rope.flag("truncate", absent=True),
            ),
            swiglu=SwiGLU(
                keys.number("swiglu_limit", absent=SWIGLU_LIMIT),
                keys.number("swiglu_alpha", absent=SWIGLU_ALPHA),
            ),
            rms_eps=keys.number("rms_norm_eps"),
            **keys.sizes(SIZES, HF),
        )
        _refuse_unknown_values(keys, rope)
        return _checked(cfg, keys)


IGNORED_KEYS = IGNORED_IN_CONFIG_JSON | {
    "experts_per_token",
    "initial_context_length",
    "modules_to_not_convert",
}
"""Keys of config.json that say nothing, or nothing new, about the arithmetic: two are older names
of keys that stand beside them, and a tensor's own type says whether it is converted."""


def _hf_layers(keys: Keys, n_layer: int) -> tuple[bool, ...]:
    types = keys.layer_types(n_layer, ("sliding_attention", "full_attention"))
    return tuple(t == "sliding_attention" for t in types)


def _refuse_unknown_values(keys: Keys, rope: Keys) -> None:
    keys.expect("hidden_act", "silu")
    keys.expect("attention_bias", True)
    keys.expect("tie_word_embeddings", False)
    rope.expect("type", "yarn")
    rope.expect("rope_type", "yarn")
    if "quantization_config" in keys:
        keys.section("quantization_config").expect("quant_method", "mxfp4")


def _checked(cfg: Config, keys: Keys) -> Config:
    """Refuse sizes that do not divide or do not fit each other."""
    keys.check_ratio("n_head / n_head_kv", cfg.n_head, cfg.n_head_kv)
    keys.check_experts(cfg.n_expert_used, cfg.n_expert)
    keys.check_even("head_dim", cfg.head_dim)
    return cfg


GATE, UP = slice(0, None, 2), slice(1, None, 2)
"""Rows of the publisher's gate_up_proj: gate, up, gate, up."""


def _gate_up(part: slice) -> tuple[Source, ...]:
    """Gate or up, from MXFP4 or from the transposed bf16 form."""
    return (
        Source(
            ("mlp.experts.gate_up_proj_blocks", "mlp.experts.gate_up_proj_scales"),
            ("n_expert, 2*n_ff_exp, n_block_embd, 16", "n_expert, 2*n_ff_exp, n_block_embd"),
            lambda cfg, b, s: Experts(cfg.n_expert, lambda e: mxfp4(b[e][part], s[e][part])),
        ),
        one(
            "mlp.experts.gate_up_proj",
            "n_expert, n_embd, 2*n_ff_exp",
            lambda cfg, t: each(t, lambda expert: transposed(expert)[part]),
            lambda cfg, gate, up: Experts(
                cfg.n_expert, lambda e: transposed(interleaved_rows(gate[e], up[e]))
            ),
        ),
    )


DOWN = (
    Source(
        ("mlp.experts.down_proj_blocks", "mlp.experts.down_proj_scales"),
        ("n_expert, n_embd, n_block_ff, 16", "n_expert, n_embd, n_block_ff"),
        lambda cfg, b, s: Experts(cfg.n_expert, lambda e: mxfp4(b[e], s[e])),
    ),
    one(
        "mlp.experts.down_proj",
        "n_expert, n_ff_exp, n_embd",
        lambda cfg, t: each(t, transposed),
        lambda cfg, t: each(t, transposed),
    ),
)


def _gate_up_bias(part: slice) -> Source:
    return one(
        "mlp.experts.gate_up_proj_bias",
        "n_expert, 2*n_ff_exp",
        lambda cfg, t: columns(t, np.arange(2 * cfg.n_ff_exp)[part]),
        lambda cfg, gate, up: interleaved_columns(gate, up),
    )


def _bias(shape: str, gguf: str, hf: str) -> Any:
    return stored(shape, gguf=f"{gguf}.bias", hf=f"{hf}.bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The tensors of one layer."""

    attn_norm: F32 = stored("n_embd", hf="input_layernorm.weight")
    attn_q: Weight = stored("n_head*head_dim, n_embd", hf="self_attn.q_proj.weight")
    attn_k: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.k_proj.weight")
    attn_v: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.v_proj.weight")
    attn_output: Weight = stored("n_embd, n_head*head_dim", hf="self_attn.o_proj.weight")
    attn_q_bias: F32 = _bias("n_head*head_dim", "attn_q", "self_attn.q_proj")
    attn_k_bias: F32 = _bias("n_head_kv*head_dim", "attn_k", "self_attn.k_proj")
    attn_v_bias: F32 = _bias("n_head_kv*head_dim", "attn_v", "self_attn.v_proj")
    attn_output_bias: F32 = _bias("n_embd", "attn_output", "self_attn.o_proj")
    attn_sinks: F32 = stored("n_head", hf="self_attn.sinks")
    post_attention_norm: F32 = stored("n_embd", hf="post_attention_layernorm.weight")
    ffn_gate_inp: Weight = stored("n_expert, n_embd", hf="mlp.router.weight")
    ffn_gate_inp_bias: F32 = _bias("n_expert", "ffn_gate_inp", "mlp.router")
    ffn_gate_exps: Weight = stored("n_expert, n_ff_exp, n_embd", hf=_gate_up(GATE))
    ffn_up_exps: Weight = stored("n_expert, n_ff_exp, n_embd", hf=_gate_up(UP))
    ffn_down_exps: Weight = stored("n_expert, n_embd, n_ff_exp", hf=DOWN)
    ffn_gate_exps_bias: F32 = stored(
        "n_expert, n_ff_exp", gguf="ffn_gate_exps.bias", hf=_gate_up_bias(GATE)
    )
    ffn_up_exps_bias: F32 = stored(
        "n_expert, n_ff_exp", gguf="ffn_up_exps.bias", hf=_gate_up_bias(UP)
    )
    ffn_down_exps_bias: F32 = stored(
        "n_expert, n_embd", gguf="ffn_down_exps.bias", hf="mlp.experts.down_proj_bias"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The tensors outside the layers."""

    token_embd: Weight = stored("n_vocab, n_embd", hf="embed_tokens.weight")
    output_norm: F32 = stored("n_embd", hf="norm.weight")
    output: Weight = stored("n_vocab, n_embd", hf="/lm_head.weight")


def _ignored(cfg: Config, dialect: Dialect) -> tuple[Ignored, ...]:
    return ()


TENSORS = Table(
    whole=Whole,
    layer=lambda cfg, i: Layer,
    hf_prefixes=("model.",),
    ignored=_ignored,
)


def make_cache(cfg: Config, n_slot: int, n_ctx: int, kv: KVType = FLOAT32) -> Cache:
    """KV blocks of two kinds: layers that see a window, layers that see all."""
    windows = [cfg.window if sliding else None for sliding in cfg.is_sliding]
    layers = [AttentionState(cfg.n_head_kv, cfg.head_dim, window) for window in windows]
    return Cache(layers, n_slot=n_slot, n_ctx=n_ctx, kv=kv)


def forward(cfg: Config, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
    """Logits [n_logit, n_vocab] of the rows the batch asks for."""
    whole: Whole = weights.whole
    x = ops.embed(whole.token_embd, batch.token_ids)  # [n_tok, n_embd]
    angles = ops.angles(batch.positions, cfg.rotation)
    for i in range(cfg.n_layer):
        x = block(cfg, i, weights.layers[i], ops, x, angles, batch, cache)
    x = ops.rms_norm(x[batch.logit_rows], whole.output_norm, cfg.rms_eps)
    return ops.linear(x, whole.output)


def block(
    cfg: Config, i: int, w: Layer, ops: Ops, x: F32, angles: Angles, batch: Batch, cache: Cache
) -> F32:
    """Layer i: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    window = cfg.window if cfg.is_sliding[i] else None
    h = ops.rms_norm(x, w.attn_norm, cfg.rms_eps)
    x = x + attention(cfg, w, ops, h, angles, cache.kv(i, batch), window)
    return x + moe(cfg, w, ops, ops.rms_norm(x, w.post_attention_norm, cfg.rms_eps))


def attention(
    cfg: Config, w: Layer, ops: Ops, x: F32, angles: Angles, kv: KVView, window: int | None
) -> F32:
    """Attention with sinks: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    n_tok, d = len(x), cfg.head_dim
    q = ops.linear(x, w.attn_q, w.attn_q_bias).reshape(n_tok, cfg.n_head, d)
    k = ops.linear(x, w.attn_k, w.attn_k_bias).reshape(n_tok, cfg.n_head_kv, d)
    v = ops.linear(x, w.attn_v, w.attn_v_bias).reshape(n_tok, cfg.n_head_kv, d)
    q = ops.rope(q, angles)
    k = ops.rope(k, angles)
    y = ops.attention(q, k, v, kv, scale=d**-0.5, window=window, sinks=w.attn_sinks)
    return ops.linear(y.reshape(n_tok, -1), w.attn_output, w.attn_output_bias)


def moe(cfg: Config, w: Layer, ops: Ops, x: F32) -> F32:
    """Routed experts with biases: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    logits = ops.linear(x, w.ffn_gate_inp, w.ffn_gate_inp_bias)
    routing = ops.route(logits, cfg.n_expert_used, softmax="chosen")
    biases = (w.ffn_gate_exps_bias, w.ffn_up_exps_bias, w.ffn_down_exps_bias)
    return ops.experts(
        x, routing, w.ffn_gate_exps, w.ffn_up_exps, w.ffn_down_exps, cfg.swiglu, biases
    )
