"""The attention layer of the Qwen3-Next and Qwen3.5 families, whose outputs a sigmoid gates.

    q, gate = split(attn_q @ x)             head by head: first q, then its gate
    y = attention(rope(rms_norm(q)), rope(rms_norm(k)), v)
    out = attn_output @ (y * sigmoid(gate))

Only the first part of each head turns (NEOX pairs). Safetensors store both norms minus one. Which
layers of a model are such layers is not known here.
"""

from dataclasses import dataclass

from junto.models.hybrid import HybridConfig
from junto.models.layouts import plus_one
from junto.models.table import one, stored
from junto.ops.contract import Angles, Ops, Weight
from junto.ops.views import F32, KVView


# No slots here: a layer inherits from several such classes.
@dataclass(frozen=True, kw_only=True)
class GatedAttention:
    """Its tensors."""

    attn_q: Weight = stored("2*n_head*head_dim, n_embd", hf="self_attn.q_proj.weight")
    attn_k: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.k_proj.weight")
    attn_v: Weight = stored("n_head_kv*head_dim, n_embd", hf="self_attn.v_proj.weight")
    attn_output: Weight = stored("n_embd, n_head*head_dim", hf="self_attn.o_proj.weight")
    attn_q_norm: F32 = stored("head_dim", hf=one("self_attn.q_norm.weight", convert=plus_one))
    attn_k_norm: F32 = stored("head_dim", hf=one("self_attn.k_norm.weight", convert=plus_one))


def gated_attention(
    cfg: HybridConfig, w: GatedAttention, ops: Ops, x: F32, angles: Angles, kv: KVView
) -> F32:
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
