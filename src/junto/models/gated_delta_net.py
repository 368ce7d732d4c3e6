"""The DeltaNet layer of the Qwen3-Next and Qwen3.5 families: its tensors, and what it computes.

    q, k, v = split(silu(conv(attn_qkv @ x)))
    y = gated_delta_rule(q, k, v, decay, beta)           decay, beta from ssm_alpha, ssm_beta
    out = ssm_out @ gated_rms_norm(y, attn_gate @ x)

Source: arXiv 2412.06464. Value heads are tiled here: value head h reads key head h % n_head_k.
Safetensors store them grouped (the value heads of a key head lie together), which the functions
`tiled_*` turn into ours. Which layers of a model are such layers is not known here.
"""

from dataclasses import dataclass

import numpy as np

from junto.formats.tensor import Tensor
from junto.models.hybrid import HybridConfig
from junto.models.layouts import I64, columns, float32_map, reshape
from junto.models.table import one, stored
from junto.ops.contract import Ops, Weight
from junto.ops.views import F32, DeltaView


def tiled(cfg: HybridConfig) -> I64:
    """Grouped value head that stands at each place of the tiled order."""
    grouped = np.arange(cfg.ssm_n_head_v).reshape(cfg.ssm_n_head_k, -1)
    return grouped.T.reshape(-1)


def tiled_rows(cfg: HybridConfig) -> I64:
    """The same for single outputs of the value heads."""
    return (tiled(cfg)[:, None] * cfg.ssm_state + np.arange(cfg.ssm_state)).reshape(-1)


def tiled_channels(cfg: HybridConfig) -> I64:
    """The same for the channels of q, k and v: only v moves."""
    n_qk = 2 * cfg.ssm_n_head_k * cfg.ssm_state
    return np.concatenate([np.arange(n_qk), n_qk + tiled_rows(cfg)])


def decay_rate(cfg: HybridConfig, a_log: Tensor) -> Tensor:
    """`A_log` of safetensors as ssm_a = -exp(A_log)."""
    return float32_map(columns(a_log, tiled(cfg)), lambda a: -np.exp(a))


def conv(cfg: HybridConfig, weight: Tensor) -> Tensor:
    """`conv1d` of safetensors [n_channel, 1, n_tap] as ssm_conv1d."""
    return reshape(weight, (cfg.n_channel, cfg.n_tap))[tiled_channels(cfg)]


# No slots here: a layer inherits from several such classes.
@dataclass(frozen=True, kw_only=True)
class DeltaNet:
    """Its tensors, as Qwen3.5 stores them."""

    attn_qkv: Weight = stored(
        "n_channel, n_embd",
        hf=one("linear_attn.in_proj_qkv.weight", convert=lambda cfg, t: t[tiled_channels(cfg)]),
    )
    attn_gate: Weight = stored(
        "ssm_inner, n_embd",
        hf=one("linear_attn.in_proj_z.weight", convert=lambda cfg, t: t[tiled_rows(cfg)]),
    )
    ssm_beta: Weight = stored(
        "ssm_n_head_v, n_embd",
        hf=one("linear_attn.in_proj_b.weight", convert=lambda cfg, t: t[tiled(cfg)]),
    )
    ssm_alpha: Weight = stored(
        "ssm_n_head_v, n_embd",
        hf=one("linear_attn.in_proj_a.weight", convert=lambda cfg, t: t[tiled(cfg)]),
    )
    ssm_a: F32 = stored(
        "ssm_n_head_v", gguf="ssm_a", hf=one("linear_attn.A_log", convert=decay_rate)
    )
    ssm_dt: F32 = stored(
        "ssm_n_head_v",
        gguf="ssm_dt.bias",
        hf=one("linear_attn.dt_bias", convert=lambda cfg, t: columns(t, tiled(cfg))),
    )
    ssm_conv1d: F32 = stored(
        "n_channel, n_tap", hf=one("linear_attn.conv1d.weight", "n_channel, 1, n_tap", conv)
    )
    ssm_norm: F32 = stored("ssm_state", hf="linear_attn.norm.weight")
    ssm_out: Weight = stored(
        "n_embd, ssm_inner",
        hf=one("linear_attn.out_proj.weight", convert=lambda cfg, t: columns(t, tiled_rows(cfg))),
    )


def delta_heads(cfg: HybridConfig, w: DeltaNet, ops: Ops, x: F32, delta: DeltaView) -> F32:
    """All but the last matrix: x [n_tok, n_embd] -> [n_tok, ssm_n_head_v, S], heads tiled."""
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
    return ops.gated_rms_norm(y, w.ssm_norm, z, cfg.rms_eps)


def delta_net(cfg: HybridConfig, w: DeltaNet, ops: Ops, x: F32, delta: DeltaView) -> F32:
    """The whole layer: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    return ops.linear(delta_heads(cfg, w, ops, x, delta).reshape(len(x), -1), w.ssm_out)
