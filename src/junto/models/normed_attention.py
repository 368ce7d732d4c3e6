"""What the Qwen3 family shares: grouped-query attention with normed q and k, and its sizes.

    y = attention(rope(rms_norm(q)), rope(rms_norm(k)), v)
    out = attn_output @ y

Every dimension of a head turns (NEOX pairs); no biases, no windows, no scaled positions. What
else stands in a layer is not known here.
"""

from dataclasses import dataclass
from typing import Any

from junto.cache import AttentionState
from junto.formats.gguf_encoding import OutValue
from junto.models.keys import GGUF, HF, N_LAYER_MAX, Keys, written_sizes
from junto.models.table import stored
from junto.ops.contract import Angles, Ops, Rotation, Weight
from junto.ops.rotary import plain_frequencies
from junto.ops.views import F32, KVView

SIZES = {
    "n_embd": ("embedding_length", "hidden_size"),
    "n_ctx_train": ("context_length", "max_position_embeddings"),
    "n_head": ("attention.head_count", "num_attention_heads"),
    "n_head_kv": ("attention.head_count_kv", "num_key_value_heads"),
    "head_dim": ("attention.key_length", "head_dim"),
}
"""Sizes of the model, and their names in GGUF metadata and in config.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormedAttentionConfig:
    """Sizes of one model; names as in GGUF."""

    n_layer: int
    n_embd: int
    n_vocab: int
    n_ctx_train: int
    n_head: int
    n_head_kv: int
    head_dim: int
    rope_theta: float
    rms_eps: float
    may_tie: bool

    @property
    def rotation(self) -> Rotation:
        """Rotary embedding of all layers."""
        return Rotation(plain_frequencies(self.rope_theta, self.head_dim))

    @property
    def states(self) -> list[AttentionState]:
        """What each layer remembers."""
        return [AttentionState(self.n_head_kv, self.head_dim)] * self.n_layer

    def check(self, keys: Keys) -> None:
        """Refuse sizes that do not divide."""
        keys.check_ratio("n_head / n_head_kv", self.n_head, self.n_head_kv)
        keys.check_even("head_dim", self.head_dim)


def fields_from_gguf(keys: Keys, n_vocab: int) -> dict[str, Any]:
    """The fields of `NormedAttentionConfig` from metadata."""
    fields = dict(
        n_layer=keys.integer("block_count", high=N_LAYER_MAX),
        n_vocab=n_vocab,
        rope_theta=keys.number("rope.freq_base", above=1),
        rms_eps=keys.number("attention.layer_norm_rms_epsilon"),
        may_tie=True,
        **keys.sizes(SIZES, GGUF),
    )
    keys.expect("attention.value_length", fields["head_dim"])
    keys.expect("rope.dimension_count", fields["head_dim"])
    keys.expect("rope.scaling.type", "none")
    return fields


def fields_as_gguf(cfg: NormedAttentionConfig) -> dict[str, OutValue]:
    """What `fields_from_gguf` reads, without the prefix."""
    return {
        "block_count": cfg.n_layer,
        **written_sizes(SIZES, cfg),
        "attention.value_length": cfg.head_dim,
        "attention.layer_norm_rms_epsilon": cfg.rms_eps,
        "rope.freq_base": cfg.rope_theta,
    }


def fields_from_hf(keys: Keys) -> dict[str, Any]:
    """The fields of `NormedAttentionConfig` from config.json."""
    n_layer = keys.integer("num_hidden_layers", high=N_LAYER_MAX)
    fields = dict(
        n_layer=n_layer,
        n_vocab=keys.integer("vocab_size"),
        rope_theta=_rope_theta(keys),
        rms_eps=keys.number("rms_norm_eps"),
        may_tie=keys.flag("tie_word_embeddings", absent=False),
        **keys.sizes(SIZES, HF),
    )
    keys.expect("attention_bias", False)
    keys.expect("hidden_act", "silu")
    keys.expect("quantization_config")
    keys.expect("use_sliding_window", False)
    if "layer_types" in keys:
        keys.layer_types(n_layer, ("full_attention",))
    return fields


def _rope_theta(keys: Keys) -> float:
    """From `rope_parameters`, or from beside the older `rope_scaling`; neither may scale."""
    named = next((name for name in ("rope_parameters", "rope_scaling") if name in keys), None)
    rope = keys.section(named) if named else keys
    rope.expect("rope_type", "default")
    rope.expect("type", "default")
    return (rope if "rope_theta" in rope else keys).number("rope_theta", above=1)


IGNORED_WITHOUT_WINDOWS = frozenset({"max_window_layers", "sliding_window"})
"""Keys of config.json that mean nothing while `use_sliding_window` is false."""


# No slots here: a layer inherits from several such classes.
@dataclass(frozen=True, kw_only=True)
class NormedAttention:
    """The tensors of the attention."""

    attn_q: Weight = stored("n_head*head_dim, n_embd", hf="self_attn.q_proj.weight")
    attn_k: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.k_proj.weight")
    attn_v: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.v_proj.weight")
    attn_output: Weight = stored("n_embd, n_head*head_dim", hf="self_attn.o_proj.weight")
    attn_q_norm: F32 = stored("head_dim", hf="self_attn.q_norm.weight")
    attn_k_norm: F32 = stored("head_dim", hf="self_attn.k_norm.weight")


def normed_attention(
    cfg: NormedAttentionConfig, w: NormedAttention, ops: Ops, x: F32, angles: Angles, kv: KVView
) -> F32:
    """Attention: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    n_tok, d = len(x), cfg.head_dim
    q = ops.linear(x, w.attn_q).reshape(n_tok, cfg.n_head, d)
    k = ops.linear(x, w.attn_k).reshape(n_tok, cfg.n_head_kv, d)
    v = ops.linear(x, w.attn_v).reshape(n_tok, cfg.n_head_kv, d)
    q = ops.rope(ops.rms_norm(q, w.attn_q_norm, cfg.rms_eps), angles)
    k = ops.rope(ops.rms_norm(k, w.attn_k_norm, cfg.rms_eps), angles)
    y = ops.attention(q, k, v, kv, scale=d**-0.5)
    return ops.linear(y.reshape(n_tok, -1), w.attn_output)
