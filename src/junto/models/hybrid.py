"""What models of DeltaNet and gated attention layers share besides those layers.

Sizes and the order of both kinds of layer, from GGUF metadata and from config.json, and the tensors
outside the layers: embedding, last norm (stored minus one in safetensors), head. The vision tower
is left alone.
"""

from dataclasses import dataclass
from typing import Any

from junto.cache import AttentionState, DeltaState, LayerState
from junto.formats.gguf_encoding import OutValue
from junto.models.keys import GGUF, HF, IGNORED_IN_CONFIG_JSON, N_LAYER_MAX, Keys, written_sizes
from junto.models.layouts import plus_one
from junto.models.table import Dialect, Ignored, one, stored
from junto.ops.contract import Ops, Rotation, Weight
from junto.ops.rotary import plain_frequencies
from junto.ops.views import F32

SIZES = {
    "n_embd": ("embedding_length", "hidden_size"),
    "n_ctx_train": ("context_length", "max_position_embeddings"),
    "n_head": ("attention.head_count", "num_attention_heads"),
    "n_head_kv": ("attention.head_count_kv", "num_key_value_heads"),
    "head_dim": ("attention.key_length", "head_dim"),
    "ssm_state": ("ssm.state_size", "linear_key_head_dim"),
    "ssm_n_head_k": ("ssm.group_count", "linear_num_key_heads"),
    "ssm_n_head_v": ("ssm.time_step_rank", "linear_num_value_heads"),
    "n_tap": ("ssm.conv_kernel", "linear_conv_kernel_dim"),
}
"""Sizes of the model, and their names in GGUF metadata and in config.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridConfig:
    """Sizes of one model; names as in GGUF, `ssm_state` is the head size of DeltaNet.

    n_nextn   draft layers that the file speaks of
    drafts    whether one is loaded; it remembers what an attention layer does
    """

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
    rope_sections: tuple[int, ...]
    rope_theta: float
    ssm_state: int
    ssm_n_head_k: int
    ssm_n_head_v: int
    n_tap: int
    rms_eps: float
    may_tie: bool
    drafts: bool = False

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

    @property
    def states(self) -> list[LayerState]:
        """What each layer remembers; the draft layer is the last."""
        attention = AttentionState(self.n_head_kv, self.head_dim)
        delta = DeltaState(self.ssm_n_head_k, self.ssm_n_head_v, self.ssm_state, self.n_tap)
        return [attention if a else delta for a in (*self.is_attention, *[True] * self.drafts)]

    def check(self, keys: Keys) -> None:
        """Refuse sizes that do not divide or do not fit each other."""
        keys.check_ratio("n_head / n_head_kv", self.n_head, self.n_head_kv)
        heads = "DeltaNet's value heads / key heads"
        keys.check_ratio(heads, self.ssm_n_head_v, self.ssm_n_head_k)
        keys.check_state(self.is_attention.count(False), self.ssm_n_head_v, self.ssm_state)
        if self.n_rot % 2 or not 2 <= self.n_rot <= self.head_dim:
            raise keys.refuse(
                f"{self.n_rot} rotary dimensions, expected an even number from 2 to head_dim = "
                f"{self.head_dim}"
            )


def fields_from_gguf(keys: Keys, n_vocab: int, interval: int | None = None) -> dict[str, Any]:
    """The fields of `HybridConfig` from metadata; `interval` is what no stated interval means."""
    n_nextn = keys.integer("nextn_predict_layers", low=0, high=16, absent=0)
    n_block = keys.integer("block_count", low=n_nextn + 1, high=N_LAYER_MAX)
    fields = dict(
        n_layer=n_block - n_nextn,
        n_nextn=n_nextn,
        is_attention=_gguf_layers(keys, n_block, interval)[: n_block - n_nextn],
        n_vocab=n_vocab,
        n_rot=keys.integer("rope.dimension_count"),
        rope_sections=_sections(keys.integers("rope.dimension_sections", absent=())),
        rope_theta=keys.number("rope.freq_base", above=1),
        rms_eps=keys.number("attention.layer_norm_rms_epsilon"),
        may_tie=True,
        **keys.sizes(SIZES, GGUF),
    )
    keys.expect("rope.scaling.type", "none")
    keys.expect("attention.value_length", fields["head_dim"])
    keys.expect("ssm.inner_size", fields["ssm_n_head_v"] * fields["ssm_state"])
    return fields


def fields_as_gguf(cfg: HybridConfig, *, sectioned: bool = True) -> dict[str, OutValue]:
    """What `fields_from_gguf` reads, without the prefix.

    sectioned   whether readers want the four sections of the rotary embedding, as llama.cpp does
                of the Qwen3.5 family
    """
    sections = cfg.rope_sections or (cfg.n_rot // 2,)
    padded = [*sections, *[0] * (4 - len(sections))]
    return {
        "block_count": cfg.n_layer + cfg.n_nextn,
        **written_sizes(SIZES, cfg),
        **({"nextn_predict_layers": cfg.n_nextn} if cfg.n_nextn else {}),
        **_written_layers(cfg),
        "attention.value_length": cfg.head_dim,
        "attention.layer_norm_rms_epsilon": cfg.rms_eps,
        "rope.dimension_count": cfg.n_rot,
        **({"rope.dimension_sections": padded} if sectioned else {}),
        "rope.freq_base": cfg.rope_theta,
        "ssm.inner_size": cfg.ssm_inner,
    }


def text_keys(keys: Keys) -> Keys:
    """The part of config.json on the text model: under `text_config` when the model can see."""
    return keys.section("text_config") if "text_config" in keys else keys


def fields_from_hf(keys: Keys) -> dict[str, Any]:
    """The fields of `HybridConfig` from config.json."""
    text = text_keys(keys)
    rope = text.section("rope_parameters") if "rope_parameters" in text else text
    tie = text if "tie_word_embeddings" in text else keys
    n_layer = text.integer("num_hidden_layers", high=N_LAYER_MAX)
    fields = dict(
        n_layer=n_layer,
        n_nextn=text.integer("mtp_num_hidden_layers", low=0, high=16, absent=0),
        is_attention=_hf_layers(text, n_layer),
        n_vocab=text.integer("vocab_size"),
        n_rot=int(text.integer("head_dim") * rope.number("partial_rotary_factor")),
        rope_sections=_sections(_rope_kind(text, rope).integers("mrope_section", absent=())),
        rope_theta=rope.number("rope_theta", above=1),
        rms_eps=text.number("rms_norm_eps"),
        may_tie=tie.flag("tie_word_embeddings", absent=False),
        **text.sizes(SIZES, HF),
    )
    text.expect("linear_value_head_dim", fields["ssm_state"])
    keys.expect("quantization_config")
    _refuse_unknown_values(text, rope)
    return fields


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


def _gguf_layers(keys: Keys, n_block: int, usual: int | None) -> tuple[bool, ...]:
    if "attention.recurrent_layers" in keys:
        recurrent = keys.integers("attention.recurrent_layers")
        if len(recurrent) != n_block:
            raise keys.refuse(f"recurrent_layers has {len(recurrent)} entries for {n_block} blocks")
        return tuple(not r for r in recurrent)
    interval = keys.integer("full_attention_interval", absent=usual)
    return tuple((i + 1) % interval == 0 for i in range(n_block))


def _written_layers(cfg: HybridConfig) -> dict[str, OutValue]:
    """The interval of attention layers, or each layer's kind where no interval gives them."""
    for interval in range(1, cfg.n_layer + 1):
        if cfg.is_attention == tuple((i + 1) % interval == 0 for i in range(cfg.n_layer)):
            return {"full_attention_interval": interval}
    recurrent = [not attention for attention in cfg.is_attention]
    return {"attention.recurrent_layers": recurrent + [False] * cfg.n_nextn}


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
    text.expect("quantization_config")
    kind = _rope_kind(text, rope)
    kind.expect("type", "default", "mrope")
    kind.expect("rope_type", "default", "mrope")
    kind.expect("mrope_interleaved", True)


def _rope_kind(text: Keys, rope: Keys) -> Keys:
    """Where the kind of rotary embedding stands; older files have a section for that alone."""
    older = rope is text and "rope_scaling" in text
    return text.section("rope_scaling") if older else rope


def _sections(found: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of the multi-section rotary embedding; GGUF adds a fourth of 0."""
    return found[:3] if found[3:] == (0,) else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The tensors outside the layers."""

    token_embd: Weight = stored("n_vocab, n_embd", hf="embed_tokens.weight")
    output_norm: F32 = stored("n_embd", hf=one("norm.weight", convert=plus_one))
    output: Weight | None = stored(
        "n_vocab, n_embd", hf="/lm_head.weight", may_lack=lambda cfg: cfg.may_tie
    )


def logits(cfg: HybridConfig, whole: Whole, ops: Ops, x: F32) -> F32:
    """Norm and head: x [n_row, n_embd] -> [n_row, n_vocab]."""
    x = ops.rms_norm(x, whole.output_norm, cfg.rms_eps)
    return ops.linear(x, whole.token_embd if whole.output is None else whole.output)


# No slots here: a layer inherits from several such classes.
@dataclass(frozen=True, kw_only=True)
class Norms:
    """The norms before either half of a layer."""

    attn_norm: F32 = stored("n_embd", hf=one("input_layernorm.weight", convert=plus_one))
    post_attention_norm: F32 = stored(
        "n_embd", hf=one("post_attention_layernorm.weight", convert=plus_one)
    )


def ignored(cfg: HybridConfig, dialect: Dialect) -> tuple[Ignored, ...]:
    """Vision tower, and a head beside a tied embedding."""
    if dialect == "gguf":
        return ()
    tied = (Ignored("lm_head.weight", "the head is tied to the embedding"),) if cfg.may_tie else ()
    return (Ignored("model.visual.*", "the vision tower (text only)"), *tied)


HF_PREFIXES = ("model.language_model.", "model.")
"""What safetensors put before the names of the text model."""
