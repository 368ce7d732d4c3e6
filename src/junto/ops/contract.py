"""The ops every backend offers, with one signature each.

Shapes are given as [rows, columns]; `n_tok` counts the rows of a ragged batch. All activations are
float32. A backend may keep weights in any form it likes behind `Weight.handle`.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from junto.errors import RequestError
from junto.formats.tensor import Tensor
from junto.ops.views import F32, I32, Batch, DeltaView, Holder, KVView

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Weight:
    """A matrix, or a stack of one matrix an expert, as a backend holds it.

    shape    [n_out, n_in], or [n_expert, n_out, n_in]
    handle   the backend's own; only the backend that made it looks inside
    """

    name: str
    shape: tuple[int, ...]
    handle: Any


@dataclass(frozen=True, slots=True)
class Rotation:
    """A rotary embedding: which dimensions turn, and how fast.

    inv_freq   float64 [n_rot // 2]   radians a position; the first n_rot dimensions turn
    pairs      "half": dimension j turns with j + n_rot/2; "adjacent": 2j with 2j + 1
    scale      factor on cosine and sine
    """

    inv_freq: npt.NDArray[np.float64]
    pairs: Literal["half", "adjacent"] = "half"
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Angles:
    """A rotation at the positions of a batch.

    cos, sin   float32 [n_tok, n_rot // 2], scaled
    pairs      as in `Rotation`
    """

    cos: F32
    sin: F32
    pairs: Literal["half", "adjacent"]


@dataclass(frozen=True, slots=True)
class Routing:
    """Which experts each token goes to.

    expert_ids   int64 [n_tok, n_expert_used]     ascending in each row
    weights      float32 [n_tok, n_expert_used]
    """

    expert_ids: I64
    weights: F32


@dataclass(frozen=True, slots=True)
class SwiGLU:
    """How gate and up become one: silu(gate) * up, or with a limit gpt-oss's clamped form.

    With `limit`: gate is cut above it, up on both sides, and the result is
    (up + 1) * gate * sigmoid(alpha * gate).
    """

    limit: float | None = None
    alpha: float = 1.0


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one row of logits becomes one token.

    temperature divides the logits first (0 takes the largest logit and ignores the rest); then
    top_k keeps the k largest (0 keeps all), top_p the smallest set whose probability reaches it,
    min_p those of at least min_p times the largest probability.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05


def check_token_ids(token_ids: I32, n_vocab: int) -> None:
    """RequestError if a token id [n_tok] is none of 0 to n_vocab - 1."""
    outside = token_ids[(token_ids < 0) | (token_ids >= n_vocab)]
    if outside.size:
        raise RequestError(f"token id {outside[0]} is outside the vocabulary of {n_vocab} tokens")


class StepCache(Protocol):
    """What a step asks of the cache.

    layers   what each layer remembers; those of equal entries have the same block tables or
             anchors, and their arrays move together

    Views of one layer have the same array objects until they move.
    """

    @property
    def layers(self) -> Sequence[Hashable]:
        """What each layer remembers."""
        ...

    def kv(self, layer: int, batch: Batch) -> KVView:
        """Keys and values of an attention layer."""
        ...

    def delta(self, layer: int, batch: Batch) -> DeltaView:
        """Anchored state of a DeltaNet layer."""
        ...

    def hold(self, holder: Holder) -> None:
        """Have `holder` let go of the views' arrays before they move; it is not kept alive."""
        ...


Forward = Callable[["Ops", Batch, Any], F32]
"""A model's forward pass: ops, batch and a `StepCache` to logits [n_logit, n_vocab]."""


class Ops(Protocol):
    """One backend: every op a model file may call."""

    @property
    def name(self) -> str:
        """What `junto.load(backend=...)` calls this backend."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of this backend here, one line each."""
        ...

    def step(self) -> AbstractContextManager[None]:
        """Around the ops of one step: a backend may keep its threads ready in between."""
        ...

    def run(self, forward: Forward, batch: Batch, cache: StepCache) -> F32:
        """Logits of a step: what `forward` gives with these ops, to the bit.

        A backend may keep what it learns of a forward pass, for the same object in a later step.
        """
        ...

    def loading(self) -> AbstractContextManager[None]:
        """Around the taking of a model's weights; if it fails, it leaves nothing behind."""
        ...

    @property
    def is_keeping(self) -> bool:
        """Whether something is being made in the background that the next start will use."""
        ...

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Do what loading put off, and wait for the rest; `tell` hears of (bytes done, of all)."""
        ...

    def weight(self, tensor: Tensor | Sequence[Tensor]) -> Weight:
        """Take a stored matrix, a stack [n_expert, n_out, n_in], or one matrix an expert."""
        ...

    def table(self, tensor: Tensor) -> Weight:
        """Take a stored matrix of which `embed` alone will be asked."""
        ...

    def embed(self, table: Weight, token_ids: I32) -> F32:
        """Rows `token_ids` [n_tok] of `table` [n_vocab, n_embd] -> [n_tok, n_embd]."""
        ...

    def linear(self, x: F32, weight: Weight, bias: F32 | None = None) -> F32:
        """x @ weight.T + bias: [n_tok, n_in] by [n_out, n_in] -> [n_tok, n_out]."""
        ...

    def rms_norm(self, x: F32, weight: F32, eps: float) -> F32:
        """x / sqrt(mean(x^2) + eps) * weight over the last axis of x [..., n]; weight [n]."""
        ...

    def layer_norm(self, x: F32, weight: F32, bias: F32, eps: float) -> F32:
        """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis of x [..., n].

        weight and bias [n]; the variance is the mean of (x - mean)^2.
        """
        ...

    def gated_rms_norm(self, x: F32, weight: F32, gate: F32, eps: float) -> F32:
        """rms_norm(x) * silu(gate), over the last axis; x and gate [..., n], weight [n]."""
        ...

    def sigmoid_gate(self, x: F32, gate: F32) -> F32:
        """X * sigmoid(gate), broadcast over the last axis."""
        ...

    def swiglu(self, gate: F32, up: F32, form: SwiGLU) -> F32:
        """Gate and up [n_tok, n_ff] -> [n_tok, n_ff], as `form` says."""
        ...

    def gelu(self, x: F32) -> F32:
        """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the tanh form; x [n_tok, n_ff]."""
        ...

    def angles(self, positions: I32, rotation: Rotation) -> Angles:
        """Cosines and sines for positions [n_tok], worked out in float64, once a step."""
        ...

    def rope(self, x: F32, angles: Angles) -> F32:
        """Turn the first dimensions of each head: x [n_tok, n_head, head_dim] -> the same."""
        ...

    def attention(
        self,
        q: F32,
        k: F32,
        v: F32,
        view: KVView,
        *,
        scale: float,
        window: int | None = None,
        sinks: F32 | None = None,
    ) -> F32:
        """Store k and v in the cache, then attend causally, each sequence to itself.

        q        [n_tok, n_head, head_dim]
        k, v     [n_tok, n_head_kv, head_dim]; written to `view`
        scale    factor on q . k
        window   a query at i sees the positions i - window < j <= i; None sees all
        sinks    [n_head] logits that join each head's softmax and carry no value
        returns  [n_tok, n_head, head_dim]
        """
        ...

    def short_conv(self, x: F32, weight: F32, view: DeltaView) -> F32:
        """Causal depthwise convolution followed by SiLU; zeros stand before the first token.

        x        [n_tok, n_channel]; its raw rows are written to `view.conv`
        weight   [n_channel, n_tap], oldest tap first
        returns  [n_tok, n_channel]
        """
        ...

    def gated_delta_rule(
        self, q: F32, k: F32, v: F32, decay: F32, beta: F32, view: DeltaView
    ) -> F32:
        """Gated delta rule (arXiv 2412.06464) from the anchored state in `view`, which advances.

        q, k     [n_tok, n_head_k, S_k]   L2-normalised here; q is then scaled by 1/sqrt(S_k)
        v        [n_tok, n_head_v, S_v]   value head h reads key head h % n_head_k
        decay    [n_tok, n_head_v]        log of the decay, at most 0
        beta     [n_tok, n_head_v]        in (0, 1)
        returns  [n_tok, n_head_v, S_v]
        """
        ...

    def delta_gates(self, alpha: F32, beta: F32, ssm_a: F32, ssm_dt: F32) -> tuple[F32, F32]:
        """Log-decay ssm_a * softplus(alpha + ssm_dt) and sigmoid(beta): [n_tok, n_head_v] each."""
        ...

    def route(
        self,
        logits: F32,
        n_used: int,
        *,
        softmax: Literal["all", "chosen"],
        scale: float = 1.0,
    ) -> Routing:
        """Choose the `n_used` largest of logits [n_tok, n_expert].

        softmax="all": softmax over all experts, then the chosen ones divided by their sum;
        "chosen": softmax over the chosen logits only. Both times `scale`.
        """
        ...

    def experts(
        self,
        x: F32,
        routing: Routing,
        gate: Weight,
        up: Weight,
        down: Weight,
        form: SwiGLU,
        biases: tuple[F32, F32, F32] | None = None,
    ) -> F32:
        """Weighted sum, by ascending expert, of down(swiglu(gate(x), up(x))) for routed rows.

        x        [n_tok, n_embd]
        gate, up [n_expert, n_ff, n_embd]; down [n_expert, n_embd, n_ff]
        biases   of gate, up and down, one row an expert
        returns  [n_tok, n_embd]
        """
        ...

    def sample(self, logits: F32, how: Sequence[Sampling], uniform: Sequence[float]) -> list[int]:
        """One token for each row of logits [n_row, n_vocab]; `uniform` in [0, 1) decides.

        Equal logits fall to the lower id.
        """
        ...
