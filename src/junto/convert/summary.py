"""What a conversion wrote, counted by type."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from junto.formats.out_tensor import OutTensor


@dataclass(frozen=True, slots=True)
class Share:
    """Tensors of one type."""

    type: str
    n_tensor: int
    n_value: int
    n_bytes: int

    @property
    def bits_per_weight(self) -> float:
        """Stored bits for each value."""
        return 8 * self.n_bytes / max(1, self.n_value)


@dataclass(frozen=True, slots=True)
class Summary:
    """What was written, the largest share first.

    files   in their order
    notes   what was left out, and what was chosen in place of what was asked, one line each
    """

    files: tuple[Path, ...]
    shares: tuple[Share, ...]
    notes: tuple[str, ...]

    @property
    def total(self) -> Share:
        """All of them together."""
        return Share(
            "all",
            sum(share.n_tensor for share in self.shares),
            sum(share.n_value for share in self.shares),
            sum(share.n_bytes for share in self.shares),
        )


def summarise(files: Sequence[Path], tensors: Sequence[OutTensor], notes: Sequence[str]) -> Summary:
    """Count the tensors of a file that has been written."""
    by_type: dict[str, list[OutTensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type.name, []).append(tensor)
    shares = [
        Share(name, len(ones), sum(prod(t.shape) for t in ones), sum(t.n_bytes for t in ones))
        for name, ones in by_type.items()
    ]
    shares.sort(key=lambda share: -share.n_bytes)
    return Summary(tuple(files), tuple(shares), tuple(notes))
