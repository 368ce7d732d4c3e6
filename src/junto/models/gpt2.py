"""GPT-2 (`gpt2`): learned positions, LayerNorm with bias, and a GELU layer four times as wide.

    x = token_embd[ids] + position_embd[positions]
    x = x + attn(layer_norm(x, attn_norm))
    x = x + ffn(layer_norm(x, ffn_norm))
    logits = output @ layer_norm(x, output_norm)

Notable: positions are rows of a table, so no sequence is longer than it; q, k and v are one matrix;
every matrix has a bias; GELU is the tanh form. Safetensors store the layers' matrices transposed
and, in the first files, the causal mask as well. The head is tied to the embedding unless a GGUF
holds one of its own.
"""

from dataclasses import dataclass
from typing import Any

from junto.cache import FLOAT32, AttentionState, Cache, KVName, KVType
from junto.formats.gguf_encoding import OutValue
from junto.formats.tensor import Tensor
from junto.models.architecture import Names
from junto.models.keys import GGUF, HF, IGNORED_IN_CONFIG_JSON, N_LAYER_MAX, Keys, written_sizes
from junto.models.layouts import transposed
from junto.models.table import Dialect, Ignored, Table, one, stored
from junto.ops.contract import Ops, Weight
from junto.ops.views import F32, Batch, KVView

ARCHITECTURES = Names(gguf=("gpt2",), hf=("GPT2LMHeadModel",))

KV_DEFAULT: KVName = "f16"


SIZES = {
    "n_embd": ("embedding_length", "n_embd"),
    "n_ctx_train": ("context_length", "n_positions"),
    "n_head": ("attention.head_count", "n_head"),
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
    n_ff: int
    norm_eps: float
    may_tie: bool

    @property
    def head_dim(self) -> int:
        """Size of a head."""
        return self.n_embd // self.n_head

    @classmethod
    def from_gguf(cls, keys: Keys, n_vocab: int) -> "Config":
        """From GGUF metadata (keys under "gpt2.")."""
        cfg = cls(
            n_layer=keys.integer("block_count", high=N_LAYER_MAX),
            n_vocab=n_vocab,
            n_ff=keys.integer("feed_forward_length"),
            norm_eps=keys.number("attention.layer_norm_epsilon"),
            may_tie=True,
            **keys.sizes(SIZES, GGUF),
        )
        keys.expect("attention.head_count_kv", cfg.n_head)
        return _checked(cfg, keys)

    def gguf_keys(self) -> dict[str, OutValue]:
        """What `from_gguf` reads."""
        return {
            "block_count": self.n_layer,
            **written_sizes(SIZES, self),
            "feed_forward_length": self.n_ff,
            "attention.layer_norm_epsilon": self.norm_eps,
        }

    @classmethod
    def from_hf(cls, keys: Keys) -> "Config":
        """From config.json."""
        sizes = keys.sizes(SIZES, HF)
        cfg = cls(
            n_layer=keys.integer("n_layer", high=N_LAYER_MAX),
            n_vocab=keys.integer("vocab_size"),
            n_ff=keys.integer("n_inner", absent=4 * sizes["n_embd"]),
            norm_eps=keys.number("layer_norm_epsilon"),
            may_tie=True,
            **sizes,
        )
        keys.expect("activation_function", "gelu_new", "gelu_pytorch_tanh")
        keys.expect("add_cross_attention", False)
        keys.expect("n_ctx", cfg.n_ctx_train)
        keys.expect("quantization_config")
        keys.expect("scale_attn_by_inverse_layer_idx", False)
        keys.expect("scale_attn_weights", True)
        keys.expect("tie_word_embeddings", True)
        return _checked(cfg, keys)


IGNORED_KEYS = IGNORED_IN_CONFIG_JSON | {
    "attn_pdrop",
    "embd_pdrop",
    "reorder_and_upcast_attn",
    "resid_pdrop",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
}
"""Keys of config.json that say nothing about the arithmetic, or only about its rounding."""


def _checked(cfg: Config, keys: Keys) -> Config:
    """Refuse sizes that do not divide."""
    keys.check_ratio("n_embd / n_head", cfg.n_embd, cfg.n_head)
    return cfg


def _matrix(shape: str, name: str, stored_shape: str) -> Any:
    """A matrix that safetensors store with its inputs along the rows."""

    def turned(cfg: Config, matrix: Tensor) -> Tensor:
        return transposed(matrix)

    return stored(shape, hf=one(f"{name}.weight", stored_shape, turned))


def _bias(shape: str, gguf: str, hf: str) -> Any:
    return stored(shape, gguf=f"{gguf}.bias", hf=f"{hf}.bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The tensors of one layer."""

    attn_norm: F32 = stored("n_embd", hf="ln_1.weight")
    attn_norm_bias: F32 = _bias("n_embd", "attn_norm", "ln_1")
    attn_qkv: Weight = _matrix("3*n_embd, n_embd", "attn.c_attn", "n_embd, 3*n_embd")
    attn_qkv_bias: F32 = _bias("3*n_embd", "attn_qkv", "attn.c_attn")
    attn_output: Weight = _matrix("n_embd, n_embd", "attn.c_proj", "n_embd, n_embd")
    attn_output_bias: F32 = _bias("n_embd", "attn_output", "attn.c_proj")
    ffn_norm: F32 = stored("n_embd", hf="ln_2.weight")
    ffn_norm_bias: F32 = _bias("n_embd", "ffn_norm", "ln_2")
    ffn_up: Weight = _matrix("n_ff, n_embd", "mlp.c_fc", "n_embd, n_ff")
    ffn_up_bias: F32 = _bias("n_ff", "ffn_up", "mlp.c_fc")
    ffn_down: Weight = _matrix("n_embd, n_ff", "mlp.c_proj", "n_ff, n_embd")
    ffn_down_bias: F32 = _bias("n_embd", "ffn_down", "mlp.c_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The tensors outside the layers."""

    token_embd: Weight = stored("n_vocab, n_embd", hf="wte.weight")
    position_embd: Weight = stored("n_ctx_train, n_embd", hf="wpe.weight")
    output_norm: F32 = stored("n_embd", hf="ln_f.weight")
    output_norm_bias: F32 = _bias("n_embd", "output_norm", "ln_f")
    output: Weight | None = stored(
        "n_vocab, n_embd", hf="/lm_head.weight", may_lack=lambda cfg: cfg.may_tie
    )


def _ignored(cfg: Config, dialect: Dialect) -> tuple[Ignored, ...]:
    if dialect == "gguf":
        return ()
    mask = "the causal mask, which attention has of itself"
    return (
        Ignored("*h.*.attn.bias", mask),
        Ignored("*h.*.attn.masked_bias", mask),
        Ignored("lm_head.weight", "the head is tied to the embedding"),
    )


TENSORS = Table(
    whole=Whole,
    layer=lambda cfg, i: Layer,
    hf_prefixes=("transformer.", ""),
    ignored=_ignored,
    hf_layers="h",
)


def make_cache(cfg: Config, n_slot: int, n_ctx: int, kv: KVType = FLOAT32) -> Cache:
    """KV blocks for every layer, for no more positions than the table has."""
    layers = [AttentionState(cfg.n_head, cfg.head_dim)] * cfg.n_layer
    return Cache(layers, n_slot=n_slot, n_ctx=min(n_ctx, cfg.n_ctx_train), kv=kv)


def forward(cfg: Config, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
    """Logits [n_logit, n_vocab] of the rows the batch asks for."""
    whole: Whole = weights.whole
    positions = ops.embed(whole.position_embd, batch.positions)
    x = ops.embed(whole.token_embd, batch.token_ids) + positions  # [n_tok, n_embd]
    for i, w in enumerate(weights.layers):
        h = ops.layer_norm(x, w.attn_norm, w.attn_norm_bias, cfg.norm_eps)
        x = x + attention(cfg, w, ops, h, cache.kv(i, batch))
        x = x + ffn(w, ops, ops.layer_norm(x, w.ffn_norm, w.ffn_norm_bias, cfg.norm_eps))
    rows = x[batch.logit_rows]
    rows = ops.layer_norm(rows, whole.output_norm, whole.output_norm_bias, cfg.norm_eps)
    return ops.linear(rows, whole.token_embd if whole.output is None else whole.output)


def attention(cfg: Config, w: Layer, ops: Ops, x: F32, kv: KVView) -> F32:
    """Multi-head attention: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    qkv = ops.linear(x, w.attn_qkv, w.attn_qkv_bias)
    q, k, v = qkv.reshape(len(x), 3, cfg.n_head, cfg.head_dim).swapaxes(0, 1)
    y = ops.attention(q, k, v, kv, scale=cfg.head_dim**-0.5)
    return ops.linear(y.reshape(len(x), -1), w.attn_output, w.attn_output_bias)


def ffn(w: Layer, ops: Ops, x: F32) -> F32:
    """One hidden layer with GELU: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    h = ops.gelu(ops.linear(x, w.ffn_up, w.ffn_up_bias))
    return ops.linear(h, w.ffn_down, w.ffn_down_bias)
