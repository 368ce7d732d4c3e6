"""Bits per byte of the held-out text: the one number by which models of any tokenizer compare.

Text is cut into windows that overlap, so that all but a window's first tokens are predicted from at
least a quarter of it. Knows no family and no framework.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tools.train_demo.batches import Rows

Nats = npt.NDArray[np.float32] | npt.NDArray[np.float64]
TokenNats = Callable[[Rows], Nats]
"""Of windows [n_row, n_ctx + 1] the nats of each token but the first, [n_row, n_ctx]."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Windows [n_window, n_ctx + 1], which targets count [n_window, n_ctx], and their bytes."""

    ids: Rows
    counts: npt.NDArray[np.bool_]
    n_bytes: int

    def first(self, n_window: int, n_bytes_of: list[int]) -> "HeldOut":
        """Evenly spread windows, for a quick look."""
        some = np.linspace(0, len(self.ids) - 1, n_window).astype(int)
        n_bytes = sum(n_bytes_of[index] for index in some)
        return HeldOut(self.ids[some], self.counts[some], n_bytes)


def windows(
    texts: Iterable[Sequence[int]], decode: Callable[[list[int]], str], n_ctx: int
) -> tuple[HeldOut, list[int]]:
    """Windows over texts given as ids, and the bytes that each window's counted tokens stand for.

    decode   ids to text; ids that mark the ends of a text are nothing
    """
    rows, counts, n_bytes = [], [], []
    step = n_ctx * 3 // 4
    for text in texts:
        ids = np.asarray(text, np.int32)
        for start in range(0, len(ids) - n_ctx - 1, step):
            counted = np.arange(n_ctx) >= (0 if start == 0 else n_ctx - step)
            row = ids[start : start + n_ctx + 1]
            rows.append(row)
            counts.append(counted)
            decoded = decode(row[1:][counted].tolist())
            n_bytes.append(len(decoded.encode()))
    return HeldOut(np.stack(rows), np.stack(counts), sum(n_bytes)), n_bytes


def bits_per_byte(token_nats: TokenNats, held_out: HeldOut, n_row: int = 8) -> float:
    """Mean bits that a model needs for a byte of held-out text."""
    nats = 0.0
    for start in range(0, len(held_out.ids), n_row):
        rows = slice(start, start + n_row)
        nats += float(token_nats(held_out.ids[rows])[held_out.counts[rows]].sum())
    return nats / math.log(2) / held_out.n_bytes
