"""The numbers of a tensor in a few figures, read once and piece by piece.

Mean and deviation are of the finite values, merged from piece to piece in float64 (Chan, Golub,
LeVeque 1979). Of MXFP4 blocks the codes and scales themselves are counted too.
"""

import math
from dataclasses import dataclass

import numpy as np

from junto.convert.recoding import Recoder
from junto.formats.mapped_file import forget_pages
from junto.formats.quant_types import F32, U8
from junto.formats.tensor import Tensor

MXFP4_BYTES = 17


@dataclass(frozen=True, slots=True)
class BlockFigures:
    """Scales and codes of MXFP4 blocks.

    low, high   exponents of the smallest and largest scale: the scale is 2 to that
    codes       [16] how often each code stands; 0 to 7 are 0, .5, 1, 1.5, 2, 3, 4, 6, then negative
    """

    low: int
    high: int
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of one tensor; min, max, mean and std are of its finite values, NaN without any."""

    n: int
    min: float
    max: float
    mean: float
    std: float
    n_nan: int
    n_inf: int
    zeros: float
    blocks: BlockFigures | None = None


@dataclass(slots=True)
class _Sums:
    """What is known of the pieces so far."""

    n: int = 0
    n_finite: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0
    n_nan: int = 0
    n_zero: int = 0

    def add(self, piece: F32) -> None:
        """Merge a piece of values."""
        finite = piece[np.isfinite(piece)].astype(np.float64)
        self.n += piece.size
        self.n_nan += int(np.isnan(piece).sum())
        self.n_zero += piece.size - int(np.count_nonzero(piece))
        if not finite.size:
            return
        self.low, self.high = min(self.low, finite.min()), max(self.high, finite.max())
        mean = float(finite.mean())
        n, change = self.n_finite + finite.size, mean - self.mean
        self.squares += float(((finite - mean) ** 2).sum())
        self.squares += change**2 * self.n_finite * finite.size / n
        self.mean += change * finite.size / n
        self.n_finite = n


def statistics(tensor: Tensor, recoder: Recoder | None = None) -> Statistics:
    """Read a tensor once; FormatError if its type cannot be decoded, or its bytes are not there."""
    sums, blocks = _Sums(), _Blocks() if tensor.type.name == "MXFP4" else None
    for piece in (recoder or Recoder.make()).values(tensor):
        sums.add(piece)
    if blocks is not None:
        blocks.count(tensor)
    has_any = sums.n_finite > 0
    return Statistics(
        n=sums.n,
        min=float(sums.low) if has_any else math.nan,
        max=float(sums.high) if has_any else math.nan,
        mean=sums.mean if has_any else math.nan,
        std=math.sqrt(sums.squares / sums.n_finite) if has_any else math.nan,
        n_nan=sums.n_nan,
        n_inf=sums.n - sums.n_finite - sums.n_nan,
        zeros=sums.n_zero / max(1, sums.n),
        blocks=blocks.figures() if blocks is not None else None,
    )


class _Blocks:
    """Counts of the bytes of MXFP4 blocks: a scale, then 16 bytes of two codes."""

    N_BLOCK = 1 << 16

    def __init__(self) -> None:
        self._scales = np.zeros(256, np.int64)
        self._codes = np.zeros(16, np.int64)

    def count(self, tensor: Tensor) -> None:
        """Add the blocks of a tensor."""
        blocks = tensor.data.reshape(-1, MXFP4_BYTES)
        for start in range(0, len(blocks), self.N_BLOCK):
            part = blocks[start : start + self.N_BLOCK]
            self._add(part)
            forget_pages(part)

    def _add(self, blocks: U8) -> None:
        self._scales += np.bincount(blocks[:, 0], minlength=256)
        pairs = np.bincount(blocks[:, 1:].reshape(-1), minlength=256).reshape(16, 16)
        self._codes += pairs.sum(axis=0) + pairs.sum(axis=1)

    def figures(self) -> BlockFigures:
        """What was counted; an exponent is the scale's byte less 127."""
        there = np.flatnonzero(self._scales) - 127
        return BlockFigures(int(there.min()), int(there.max()), tuple(self._codes.tolist()))
