"""The second half of a layer: a dense SwiGLU, or routed experts, with or without a shared one.

Names are those of GGUF and of Qwen's and Llama's safetensors. Experts come merged, fused (gate rows
first) or one by one. Which layers of a model have which is not known here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from junto.formats.tensor import Tensor
from junto.models.keys import Keys
from junto.models.layouts import each, reshape
from junto.models.table import one, stored
from junto.ops.contract import Ops, SwiGLU, Weight
from junto.ops.views import F32


# No slots here nor below: a layer inherits from several such classes.
@dataclass(frozen=True, kw_only=True)
class DenseFeedForward:
    """The tensors of a dense SwiGLU."""

    ffn_gate: Weight = stored("n_ff, n_embd", hf="mlp.gate_proj.weight")
    ffn_up: Weight = stored("n_ff, n_embd", hf="mlp.up_proj.weight")
    ffn_down: Weight = stored("n_embd, n_ff", hf="mlp.down_proj.weight")


def dense(w: DenseFeedForward, ops: Ops, x: F32) -> F32:
    """Dense SwiGLU: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    gate, up = ops.linear(x, w.ffn_gate), ops.linear(x, w.ffn_up)
    return ops.linear(ops.swiglu(gate, up, SwiGLU()), w.ffn_down)


class ExpertSizes(Protocol):
    """The part of a config that routed experts ask for."""

    @property
    def n_ff_exp(self) -> int:
        """Hidden size of an expert."""
        ...

    @property
    def n_expert_used(self) -> int:
        """Experts a token goes to."""
        ...

    @property
    def expert_weights_scale(self) -> float:
        """What the shares of the chosen experts sum to."""
        ...


def _gate_or_up(part: str, rows: Callable[[ExpertSizes], slice]) -> Any:
    """Gate or up of all experts: merged, fused (gate rows first), or one by one."""

    def split(cfg: ExpertSizes, fused: Tensor) -> Any:
        return each(fused, lambda expert: expert[rows(cfg)])

    fused, single = "n_expert, 2*n_ff_exp, n_embd", "n_ff_exp, n_embd"
    return stored(
        "n_expert, n_ff_exp, n_embd",
        gguf=(
            one(f"ffn_{part}_exps.weight"),
            one("ffn_gate_up_exps.weight", fused, split),
            one(f"ffn_{part}.{{e}}.weight", single),
        ),
        hf=(
            one("mlp.experts.gate_up_proj", fused, split),
            one(f"mlp.experts.{{e}}.{part}_proj.weight", single),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class RoutedExperts:
    """The tensors of a router and its experts."""

    ffn_gate_inp: Weight = stored("n_expert, n_embd", hf="mlp.gate.weight")
    ffn_gate_exps: Weight = _gate_or_up("gate", lambda cfg: slice(0, cfg.n_ff_exp))
    ffn_up_exps: Weight = _gate_or_up("up", lambda cfg: slice(cfg.n_ff_exp, None))
    ffn_down_exps: Weight = stored(
        "n_expert, n_embd, n_ff_exp",
        gguf=(
            one("ffn_down_exps.weight"),
            one("ffn_down.{e}.weight", "n_embd, n_ff_exp"),
        ),
        hf=(
            one("mlp.experts.down_proj"),
            one("mlp.experts.{e}.down_proj.weight", "n_embd, n_ff_exp"),
        ),
    )


def routed(cfg: ExpertSizes, w: RoutedExperts, ops: Ops, x: F32) -> F32:
    """Experts by a softmax over all, the chosen ones' shares made to sum to the scale."""
    routing = ops.route(
        ops.linear(x, w.ffn_gate_inp),
        cfg.n_expert_used,
        softmax="all",
        scale=cfg.expert_weights_scale,
    )
    return ops.experts(x, routing, w.ffn_gate_exps, w.ffn_up_exps, w.ffn_down_exps, SwiGLU())


@dataclass(frozen=True, kw_only=True)
class SharedExperts(RoutedExperts):
    """The same, and the tensors of an expert that every token passes, with its gate."""

    ffn_gate_inp_shexp: Weight = stored(
        "1, n_embd",
        gguf=one(
            "ffn_gate_inp_shexp.weight",
            "n_embd",
            lambda cfg, t: reshape(t, (1, *t.shape)),
            lambda cfg, t: reshape(t, t.shape[1:]),
        ),
        hf="mlp.shared_expert_gate.weight",
    )
    ffn_gate_shexp: Weight = stored("n_ff_shexp, n_embd", hf="mlp.shared_expert.gate_proj.weight")
    ffn_up_shexp: Weight = stored("n_ff_shexp, n_embd", hf="mlp.shared_expert.up_proj.weight")
    ffn_down_shexp: Weight = stored("n_embd, n_ff_shexp", hf="mlp.shared_expert.down_proj.weight")


def routed_and_shared(cfg: ExpertSizes, w: SharedExperts, ops: Ops, x: F32) -> F32:
    """Routed experts and the gated shared expert: x [n_tok, n_embd] -> [n_tok, n_embd]."""
    chosen = routed(cfg, w, ops, x)
    h = ops.swiglu(ops.linear(x, w.ffn_gate_shexp), ops.linear(x, w.ffn_up_shexp), SwiGLU())
    shared = ops.linear(h, w.ffn_down_shexp)
    return chosen + ops.sigmoid_gate(shared, ops.linear(x, w.ffn_gate_inp_shexp))


def refuse_other_routing(text: Keys) -> None:
    """Refuse a config.json with dense layers among the others or with shares left as they are."""
    text.expect("mlp_only_layers", [])
    text.expect("decoder_sparse_step", 1)
    text.expect("norm_topk_prob", True)


def refuse_other_gguf_routing(keys: Keys) -> None:
    """The same for GGUF metadata."""
    keys.expect("expert_gating_func", 1)
    keys.expect("expert_weights_norm", True)
