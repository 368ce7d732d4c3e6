"""What the training loop asks of a network, and what a network's loss consists of."""

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Loss:
    """Scalars of one batch, in nats a token.

    text      mean over the weighted tokens
    total     text and the draft head's part; `balance` comes on top
    balance   sum over the layers, each 1 where experts are used alike
    draft     of the draft head; None where there is none
    chosen    per layer the experts taken, [n_tok, k]
    """

    text: Any
    total: Any
    balance: Any
    draft: Any | None
    chosen: list[Any]


class Network(Protocol):
    """A trainable language model."""

    trunk: Any
    n_expert: int
    is_cooling: bool
    """Whether training is in its last part, with a falling rate; set before each step."""

    def loss(self, ids: Any, weights: Any) -> Loss:
        """The loss over rows of tokens [n_row, n_tok + 1] with the weight of each."""

    def logits(self, ids: Any) -> Any:
        """Scores of the next token, [n_row, n_tok, n_vocab] float32."""

    def named_parameters(self) -> Any:
        """Names and trainable tensors."""

    def state_dict(self) -> dict[str, Any]:
        """All tensors by name."""

    def load_state_dict(self, saved: dict[str, Any]) -> Any:
        """Take the tensors of a checkpoint."""
