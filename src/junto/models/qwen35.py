"""Qwen3.5 (`qwen35`): Gated-DeltaNet and gated attention 3:1, and a dense SwiGLU layer.

    x = x + mix(rms_norm(x, attn_norm))              mix: DeltaNet or attention, by layer
    x = x + ffn(rms_norm(x, post_attention_norm))
    logits = output @ rms_norm(x, output_norm)

Notable: as in Qwen3.5-MoE but for the experts. Safetensors store all norms but DeltaNet's minus
one; GGUF stores value heads tiled, safetensors grouped; small models tie the head to the embedding.
The three position rows of the multi-section rotary embedding are equal for text; other positions
are not supported.
"""

from dataclasses import dataclass
from typing import Any

from junto.cache import FLOAT32, Cache, KVName, KVType
from junto.formats.gguf_encoding import OutValue
from junto.models import hybrid
from junto.models.architecture import Names
from junto.models.draft_head import Draft, draft_input, draft_logits
from junto.models.feed_forward import DenseFeedForward, dense
from junto.models.gated_attention import GatedAttention, gated_attention
from junto.models.gated_delta_net import DeltaNet, delta_net
from junto.models.hybrid import HybridConfig, Norms, Whole
from junto.models.keys import Keys
from junto.models.table import Table
from junto.ops.contract import Angles, Ops
from junto.ops.views import F32, I32, Batch

ARCHITECTURES = Names(
    gguf=("qwen35",),
    hf=("Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"),
)

KV_DEFAULT: KVName = "f16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(HybridConfig):
    """Sizes of one model; names as in GGUF."""

    n_ff: int

    @classmethod
    def from_gguf(cls, keys: Keys, n_vocab: int) -> "Config":
        """From GGUF metadata (keys under "qwen35.")."""
        n_ff = keys.integer("feed_forward_length")
        cfg = cls(n_ff=n_ff, **hybrid.fields_from_gguf(keys, n_vocab))
        cfg.check(keys)
        return cfg

    def gguf_keys(self) -> dict[str, OutValue]:
        """What `from_gguf` reads."""
        return {**hybrid.fields_as_gguf(self), "feed_forward_length": self.n_ff}

    @classmethod
    def from_hf(cls, keys: Keys) -> "Config":
        """From config.json."""
        text = hybrid.text_keys(keys)
        cfg = cls(n_ff=text.integer("intermediate_size"), **hybrid.fields_from_hf(keys))
        cfg.check(text)
        return cfg


IGNORED_KEYS = hybrid.IGNORED_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayer(Norms, GatedAttention, DenseFeedForward):
    """A layer that mixes by gated attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLayer(Norms, DeltaNet, DenseFeedForward):
    """A layer that mixes by the gated delta rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftLayer(AttentionLayer, Draft):
    """The attention layer that guesses the token after the next."""


TENSORS = Table(
    whole=Whole,
    layer=lambda cfg, i: AttentionLayer if cfg.is_attention[i] else DeltaLayer,
    hf_prefixes=hybrid.HF_PREFIXES,
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
    return x + dense(w, ops, ops.rms_norm(x, w.post_attention_norm, cfg.rms_eps))


def draft(
    cfg: Config, weights: Any, ops: Ops, x: F32, next_ids: I32, batch: Batch, cache: Cache
) -> F32:
    """Logits [n_tok, n_vocab] of the tokens after `next_ids` [n_tok], which follow the batch's."""
    angles = ops.angles(batch.positions, cfg.rotation)
    h = draft_input(cfg, weights, ops, x, next_ids)
    h = block(cfg, cfg.n_layer, weights.draft, ops, h, angles, batch, cache)
    return draft_logits(cfg, weights, ops, h)
