"""Llama (`llama`): attention and a dense SwiGLU layer; SmolLM2 is one of these.

    x = x + attn(rms_norm(x, attn_norm))
    x = x + ffn(rms_norm(x, ffn_norm))
    logits = output @ rms_norm(x, output_norm)

Notable: GGUF stores the rows of q and k so that neighbouring dimensions turn together, where
safetensors pair a dimension with the one half a head away; ours is GGUF's. Llama-3 scaling is a
tensor of factors in GGUF (`rope_freqs`) and four numbers in config.json. No biases, no experts.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from junto.cache import FLOAT32, AttentionState, Cache, KVName, KVType
from junto.formats.gguf_encoding import OutValue
from junto.formats.tensor import Tensor
from junto.models.architecture import Names
from junto.models.feed_forward import DenseFeedForward, dense
from junto.models.keys import GGUF, HF, IGNORED_IN_CONFIG_JSON, N_LAYER_MAX, Keys, written_sizes
from junto.models.table import Dialect, Ignored, Table, one, stored
from junto.ops.contract import Angles, Ops, Rotation, Weight
from junto.ops.rotary import Llama3Scaling, plain_frequencies
from junto.ops.views import F32, Batch, KVView

ARCHITECTURES = Names(gguf=("llama",), hf=("LlamaForCausalLM",))

KV_DEFAULT: KVName = "f16"


SIZES = {
    "n_embd": ("embedding_length", "hidden_size"),
    "n_ctx_train": ("context_length", "max_position_embeddings"),
    "n_head": ("attention.head_count", "num_attention_heads"),
    "n_ff": ("feed_forward_length", "intermediate_size"),
}
"""Sizes of the model, and their names in GGUF metadata and in config.json."""


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of one model; names as in GGUF."""

    n_layer: int
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    n_head: int
    n_head_kv: int
    head_dim: int
    rope_theta: float
    rope_scaling: Llama3Scaling | None
    n_ff: int
    rms_eps: float
    may_tie: bool

    @property
    def n_pair(self) -> int:
        """Pairs of dimensions that turn in a head."""
        return self.head_dim // 2

    def rotation(self, rope_freqs: F32 | None) -> Rotation:
        """Rotary embedding of all layers; `rope_freqs` [head_dim // 2] are GGUF's factors."""
        if self.rope_scaling is not None:
            inv_freq = self.rope_scaling.frequencies(self.rope_theta, self.head_dim)
        else:
            inv_freq = plain_frequencies(self.rope_theta, self.head_dim)
        if rope_freqs is not None:
            inv_freq = inv_freq / rope_freqs
        return Rotation(inv_freq, pairs="adjacent")

    @classmethod
    def from_gguf(cls, keys: Keys, n_vocab: int) -> "Config":
        """From GGUF metadata (keys under "llama.")."""
        sizes = keys.sizes(SIZES, GGUF)
        usual_head_dim = max(1, sizes["n_embd"] // sizes["n_head"])
        cfg = cls(
            n_layer=keys.integer("block_count", high=N_LAYER_MAX),
            n_vocab=n_vocab,
            n_head_kv=keys.integer("attention.head_count_kv", absent=sizes["n_head"]),
            head_dim=keys.integer("attention.key_length", absent=usual_head_dim),
            rope_theta=keys.number("rope.freq_base", above=1, absent=10000.0),
            rope_scaling=None,
            rms_eps=keys.number("attention.layer_norm_rms_epsilon"),
            may_tie=True,
            **sizes,
        )
        keys.expect("attention.value_length", cfg.head_dim)
        keys.expect("rope.dimension_count", cfg.head_dim)
        keys.expect("vocab_size", n_vocab)
        keys.expect("rope.scaling.type", "none")
        keys.expect("expert_count", 0)
        return _checked(cfg, keys)

    def gguf_keys(self) -> dict[str, OutValue]:
        """What `from_gguf` reads; Llama-3 scaling is a tensor there."""
        return {
            "block_count": self.n_layer,
            "vocab_size": self.n_vocab,
            **written_sizes(SIZES, self),
            "attention.head_count_kv": self.n_head_kv,
            "attention.key_length": self.head_dim,
            "attention.value_length": self.head_dim,
            "attention.layer_norm_rms_epsilon": self.rms_eps,
            "rope.dimension_count": self.head_dim,
            "rope.freq_base": self.rope_theta,
        }

    def rope_divisors(self) -> F32 | None:
        """What Llama-3 scaling divides frequencies by, float32 [n_pair]; None if there is none."""
        if self.rope_scaling is None:
            return None
        scaled = self.rope_scaling.frequencies(self.rope_theta, self.head_dim)
        return (plain_frequencies(self.rope_theta, self.head_dim) / scaled).astype(np.float32)

    @classmethod
    def from_hf(cls, keys: Keys) -> "Config":
        """From config.json, with `rope_parameters` or the older `rope_theta`, `rope_scaling`."""
        sizes = keys.sizes(SIZES, HF)
        usual_head_dim = max(1, sizes["n_embd"] // sizes["n_head"])
        theta, scaling = _hf_rope(keys)
        cfg = cls(
            n_layer=keys.integer("num_hidden_layers", high=N_LAYER_MAX),
            n_vocab=keys.integer("vocab_size"),
            n_head_kv=keys.integer("num_key_value_heads", absent=sizes["n_head"]),
            head_dim=keys.integer("head_dim", absent=usual_head_dim),
            rope_theta=theta,
            rope_scaling=scaling,
            rms_eps=keys.number("rms_norm_eps"),
            may_tie=keys.flag("tie_word_embeddings", absent=False),
            **sizes,
        )
        keys.expect("attention_bias", False)
        keys.expect("mlp_bias", False)
        keys.expect("hidden_act", "silu")
        keys.expect("quantization_config")
        return _checked(cfg, keys)


IGNORED_KEYS = IGNORED_IN_CONFIG_JSON | {"is_llama_config", "pretraining_tp", "rope_interleaved"}
"""Keys of config.json that say nothing about the arithmetic."""


def _hf_rope(keys: Keys) -> tuple[float, Llama3Scaling | None]:
    named = next((n for n in ("rope_parameters", "rope_scaling") if n in keys), None)
    rope = keys.section(named) if named else keys
    theta = (rope if "rope_theta" in rope else keys).number("rope_theta", above=1, absent=10000.0)
    kind = "rope_type" if "rope_type" in rope else "type"
    if rope is keys or rope.choice(kind, "default", "llama3", absent="default") == "default":
        return theta, None
    scaling = Llama3Scaling(
        factor=rope.number("factor"),
        low_freq_factor=rope.number("low_freq_factor"),
        high_freq_factor=rope.number("high_freq_factor"),
        n_ctx_original=rope.integer("original_max_position_embeddings"),
    )
    if scaling.low_freq_factor >= scaling.high_freq_factor:
        raise rope.refuse(
            f"low_freq_factor is {scaling.low_freq_factor}, expected less than high_freq_factor = "
            f"{scaling.high_freq_factor}"
        )
    return theta, scaling


def _checked(cfg: Config, keys: Keys) -> Config:
    """Refuse sizes that do not divide."""
    keys.check_ratio("n_head / n_head_kv", cfg.n_head, cfg.n_head_kv)
    keys.check_even("head_dim", cfg.head_dim)
    return cfg


def _adjacent(cfg: Config, rows: Tensor) -> Tensor:
    """Rows of q or k, from pairs half a head apart to neighbours."""
    halves = np.arange(rows.shape[0]).reshape(-1, 2, cfg.head_dim // 2)  # [n_head, 2, d/2]
    return rows[halves.transpose(0, 2, 1).reshape(-1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(DenseFeedForward):
    """The tensors of one layer."""

    attn_norm: F32 = stored("n_embd", hf="input_layernorm.weight")
    attn_q: Weight = stored(
        "n_head*head_dim, n_embd", hf=one("self_attn.q_proj.weight", convert=_adjacent)
    )
    attn_k: Weight = stored(
        "n_head_kv*head_dim, n_embd", hf=one("self_attn.k_proj.weight", convert=_adjacent)
    )
    attn_v: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.v_proj.weight")
    attn_output: Weight = stored("n_embd, n_head*head_dim", hf="self_attn.o_proj.weight")
    ffn_norm: F32 = stored("n_embd", hf="post_attention_layernorm.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The tensors outside the layers."""

    token_embd: Weight = stored("n_vocab, n_embd", hf="embed_tokens.weight")
    output_norm: F32 = stored("n_embd", hf="norm.weight")
    output: Weight | None = stored(
        "n_vocab, n_embd", hf="/lm_head.weight", may_lack=lambda cfg: cfg.may_tie
    )
    rope_freqs: F32 | None = stored(
        "n_pair", hf=(), may_lack=lambda cfg: True, made=Config.rope_divisors
    )


def _ignored(cfg: Config, dialect: Dialect) -> tuple[Ignored, ...]:
    if dialect == "gguf":
        return ()
    frequencies = Ignored(
        "*.rotary_emb.inv_freq", "rotary frequencies (worked out from the config)"
    )
    tied = (Ignored("lm_head.weight", "the head is tied to the embedding"),) if cfg.may_tie else ()
    return (frequencies, *tied)


TENSORS = Table(whole=Whole, layer=lambda cfg, i: Layer, hf_prefixes=("model.",), ignored=_ignored)


def make_cache(cfg: Config, n_slot: int, n_ctx: int, kv: KVType = FLOAT32) -> Cache:
    """KV blocks for every layer."""
    layers = [AttentionState(cfg.n_head_kv, cfg.head_dim)] * cfg.n_layer
    return Cache(layers, n_slot=n_slot, n_ctx=n_ctx, kv=kv)


def forward(cfg: Config, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
    """Logits [n_logit, n_vocab] of the rows the batch asks for."""
    whole: Whole = weights.whole
    angles = ops.angles(batch.positions, cfg.rotation(whole.rope_freqs))
    x = ops.embed(whole.token_embd, batch.token_ids)  # [n_tok, n_embd]
    for i, w in enumerate(weights.layers):
        h = ops.rms_norm(x, w.attn_norm, cfg.rms_eps)
        x = x + attention(cfg, w, ops, h, angles, cache.kv(i, batch))
        x = x + dense(w, ops, ops.rms_norm(x, w.ffn_norm, cfg.rms_eps))
    x = ops.rms_norm(x[batch.logit_rows], whole.output_norm, cfg.rms_eps)
    return ops.linear(x, whole.token_embd if whole.output is None else whole.output)


def attention(cfg: Config, w: Layer, ops: Ops, x: F32, angles: Angles, kv: KVView) -> F32:
    """Grouped-query attention: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    n_tok, d = len(x), cfg.head_dim
    q = ops.linear(x, w.attn_q).reshape(n_tok, cfg.n_head, d)
    k = ops.linear(x, w.attn_k).reshape(n_tok, cfg.n_head_kv, d)
    v = ops.linear(x, w.attn_v).reshape(n_tok, cfg.n_head_kv, d)
    q, k = ops.rope(q, angles), ops.rope(k, angles)
    y = ops.attention(q, k, v, kv, scale=d**-0.5)
    return ops.linear(y.reshape(n_tok, -1), w.attn_output)
