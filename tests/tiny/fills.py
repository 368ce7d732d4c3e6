"""What a random tensor of a checkpoint is to be: its shape, and how its values spread."""

from dataclasses import dataclass

from tests.tiny.random_weights import F32, affine


@dataclass(frozen=True, slots=True)
class Fill:
    """A tensor to be: shape, and values uniform within center +- spread."""

    shape: tuple[int, ...]
    center: float
    spread: float

    def make(self, name: str) -> F32:
        """The values of the tensor called `name`, float32 [*shape]."""
        return affine(name, self.shape, self.center, self.spread)


Table = dict[str, Fill]


def linear(n_out: int, n_in: int, gain: float = 1.0) -> Fill:
    """A matrix whose outputs spread `gain` times as far as its inputs."""
    return Fill((n_out, n_in), 0.0, gain * (3.0 / n_in) ** 0.5)


def norm(n: int, center: float = 1.0) -> Fill:
    """The weight of a norm."""
    return Fill((n,), center, 0.2)
