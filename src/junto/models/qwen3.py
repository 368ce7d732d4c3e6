"""Qwen3 (`qwen3`): attention with normed q and k, and a dense SwiGLU layer.

    x = x + attn(rms_norm(x, attn_norm))
    x = x + ffn(rms_norm(x, ffn_norm))
    logits = output @ rms_norm(x, output_norm)

Notable: each head of q and k is normed before it turns; the size of a head is a number of its own,
not n_embd / n_head; small models tie the head to the embedding. No biases, no experts.
"""

from dataclasses import dataclass
from typing import Any

from junto.cache import FLOAT32, Cache, KVName, KVType
from junto.formats.gguf_encoding import OutValue
from junto.models import normed_attention as shared
from junto.models.architecture import Names
from junto.models.feed_forward import DenseFeedForward, dense
from junto.models.keys import IGNORED_IN_CONFIG_JSON, Keys
from junto.models.normed_attention import NormedAttention, NormedAttentionConfig, normed_attention
from junto.models.table import Dialect, Ignored, Table, stored
from junto.ops.contract import Ops, Weight
from junto.ops.views import F32, Batch

ARCHITECTURES = Names(gguf=("qwen3",), hf=("Qwen3ForCausalLM",))

KV_DEFAULT: KVName = "f16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(NormedAttentionConfig):
    """Sizes of one model; names as in GGUF."""

    n_ff: int

    @classmethod
    def from_gguf(cls, keys: Keys, n_vocab: int) -> "Config":
        """From GGUF metadata (keys under "qwen3.")."""
        n_ff = keys.integer("feed_forward_length")
        cfg = cls(n_ff=n_ff, **shared.fields_from_gguf(keys, n_vocab))
        cfg.check(keys)
        return cfg

    def gguf_keys(self) -> dict[str, OutValue]:
        """What `from_gguf` reads."""
        return {**shared.fields_as_gguf(self), "feed_forward_length": self.n_ff}

    @classmethod
    def from_hf(cls, keys: Keys) -> "Config":
        """From config.json."""
        cfg = cls(n_ff=keys.integer("intermediate_size"), **shared.fields_from_hf(keys))
        cfg.check(keys)
        return cfg


IGNORED_KEYS = IGNORED_IN_CONFIG_JSON | shared.IGNORED_WITHOUT_WINDOWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(NormedAttention, DenseFeedForward):
    """The tensors of one layer."""

    attn_norm: F32 = stored("n_embd", hf="input_layernorm.weight")
    ffn_norm: F32 = stored("n_embd", hf="post_attention_layernorm.weight")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The tensors outside the layers."""

    token_embd: Weight = stored("n_vocab, n_embd", hf="embed_tokens.weight")
    output_norm: F32 = stored("n_embd", hf="norm.weight")
    output: Weight | None = stored(
        "n_vocab, n_embd", hf="/lm_head.weight", may_lack=lambda cfg: cfg.may_tie
    )


def _ignored(cfg: Config, dialect: Dialect) -> tuple[Ignored, ...]:
    if dialect == "hf" and cfg.may_tie:
        return (Ignored("lm_head.weight", "the head is tied to the embedding"),)
    return ()


TENSORS = Table(
    whole=Whole,
    layer=lambda cfg, i: Layer,
    hf_prefixes=("model.",),
    ignored=_ignored,
)


def make_cache(cfg: Config, n_slot: int, n_ctx: int, kv: KVType = FLOAT32) -> Cache:
    """KV blocks for every layer."""
    return Cache(cfg.states, n_slot=n_slot, n_ctx=n_ctx, kv=kv)


def forward(cfg: Config, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
    """Logits [n_logit, n_vocab] of the rows the batch asks for."""
    whole: Whole = weights.whole
    angles = ops.angles(batch.positions, cfg.rotation)
    x = ops.embed(whole.token_embd, batch.token_ids)  # [n_tok, n_embd]
    for i, w in enumerate(weights.layers):
        h = ops.rms_norm(x, w.attn_norm, cfg.rms_eps)
        x = x + normed_attention(cfg, w, ops, h, angles, cache.kv(i, batch))
        x = x + dense(w, ops, ops.rms_norm(x, w.ffn_norm, cfg.rms_eps))
    x = ops.rms_norm(x[batch.logit_rows], whole.output_norm, cfg.rms_eps)
    return ops.linear(x, whole.token_embd if whole.output is None else whole.output)
