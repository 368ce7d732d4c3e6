"""The draft head: one attention layer that guesses the token after the next.

    h = eh_proj @ [rms_norm(embed(next token), enorm), rms_norm(hidden, hnorm)]
    h = layer(h)                                    an attention layer as the model's own
    logits = shared_head_head @ rms_norm(h, shared_head_norm)

`hidden` is what the model's own head reads: after `output_norm`. Row i knows tokens 0 to i by it,
is given token i + 1 and scores token i + 2. Norm, head and embedding are the model's where the file
has none for the draft. Safetensors store the norms minus one. Which layer it is, and whether
anybody uses the guesses, is not known here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from junto.models.hybrid import HybridConfig, Whole
from junto.models.layouts import plus_one
from junto.models.table import one, stored
from junto.ops.contract import Ops, Weight
from junto.ops.views import F32, I32


# No slots here: a layer inherits from several such classes.
@dataclass(frozen=True, kw_only=True)
class Draft:
    """What the draft layer has besides an attention layer's tensors."""

    nextn_eh_proj: Weight = stored(
        "n_embd, 2*n_embd", gguf="nextn.eh_proj.weight", hf="/mtp.fc.weight"
    )
    nextn_enorm: F32 = stored(
        "n_embd",
        gguf="nextn.enorm.weight",
        hf=one("/mtp.pre_fc_norm_embedding.weight", convert=plus_one),
    )
    nextn_hnorm: F32 = stored(
        "n_embd",
        gguf="nextn.hnorm.weight",
        hf=one("/mtp.pre_fc_norm_hidden.weight", convert=plus_one),
    )
    nextn_shared_head_norm: F32 | None = stored(
        "n_embd",
        gguf="nextn.shared_head_norm.weight",
        hf=one("/mtp.norm.weight", convert=plus_one),
        may_lack=lambda cfg: True,
    )
    nextn_shared_head_head: Weight | None = stored(
        "n_vocab, n_embd",
        gguf="nextn.shared_head_head.weight",
        hf=(),
        may_lack=lambda cfg: True,
    )
    nextn_embed_tokens: Weight | None = stored(
        "n_vocab, n_embd",
        gguf="nextn.embed_tokens.weight",
        hf=(),
        may_lack=lambda cfg: True,
    )


def draft_input(cfg: HybridConfig, weights: Any, ops: Ops, x: F32, next_ids: I32) -> F32:
    """What the draft layer reads: x [n_tok, n_embd], next_ids [n_tok] -> [n_tok, n_embd].

    x   the residual stream behind the model's last layer
    """
    whole: Whole = weights.whole
    w: Draft = weights.draft
    table = whole.token_embd if w.nextn_embed_tokens is None else w.nextn_embed_tokens
    hidden = ops.rms_norm(x, whole.output_norm, cfg.rms_eps)
    both = [
        ops.rms_norm(ops.embed(table, next_ids), w.nextn_enorm, cfg.rms_eps),
        ops.rms_norm(hidden, w.nextn_hnorm, cfg.rms_eps),
    ]
    return ops.linear(np.concatenate(both, axis=-1), w.nextn_eh_proj)


def draft_logits(cfg: HybridConfig, weights: Any, ops: Ops, h: F32) -> F32:
    """Norm and head of the draft: h [n_tok, n_embd] -> [n_tok, n_vocab]."""
    whole: Whole = weights.whole
    w: Draft = weights.draft
    norm = whole.output_norm if w.nextn_shared_head_norm is None else w.nextn_shared_head_norm
    own = whole.token_embd if whole.output is None else whole.output
    head = own if w.nextn_shared_head_head is None else w.nextn_shared_head_head
    return ops.linear(ops.rms_norm(h, norm, cfg.rms_eps), head)
