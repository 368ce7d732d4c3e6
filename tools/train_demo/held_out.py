"""Bits per byte of the held-out text: the one number by which models of any tokenizer compare.

Text is cut into windows that overlap, so that all but a window's first tokens are predicted from at
least a quarter of it. Knows no family beyond its text marker.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tools.train_demo.batches import Rows
from tools.train_demo.network import Network
from tools.train_demo.render import Renderer


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Windows [n_window, n_ctx + 1], which targets count [n_window, n_ctx], and their bytes."""

    ids: Rows
    counts: Any
    n_bytes: int

    def first(self, n_window: int, n_bytes_of: list[int]) -> "HeldOut":
        """Evenly spread windows, for a quick look."""
        some = np.linspace(0, len(self.ids) - 1, n_window).astype(int)
        n_bytes = sum(n_bytes_of[index] for index in some)
        return HeldOut(self.ids[some], self.counts[some], n_bytes)


def windows(renderer: Renderer, texts: list[str], n_ctx: int) -> tuple[HeldOut, list[int]]:
    """Windows over the texts, and the bytes that each window's counted tokens stand for."""
    assert renderer.tokenizer is not None, "held-out text is counted in tokens"
    rows, counts, n_bytes = [], [], []
    step = n_ctx * 3 // 4
    for text in texts:
        ids = np.asarray(renderer.plain(text).ids, np.int32)
        for start in range(0, len(ids) - n_ctx - 1, step):
            counted = np.arange(n_ctx) >= (0 if start == 0 else n_ctx - step)
            row = ids[start : start + n_ctx + 1]
            rows.append(row)
            counts.append(counted)
            decoded = renderer.tokenizer.decode(row[1:][counted].tolist())
            n_bytes.append(len(decoded.encode()))
    return HeldOut(np.stack(rows), np.stack(counts), sum(n_bytes)), n_bytes


def bits_per_byte(network: Network, held_out: HeldOut, n_row: int = 8) -> float:
    """Mean bits that the network needs for a byte of held-out text."""
    nats = 0.0
    with torch.no_grad():
        for start in range(0, len(held_out.ids), n_row):
            rows = torch.from_numpy(held_out.ids[start : start + n_row]).long()
            counts = torch.from_numpy(held_out.counts[start : start + n_row])
            scores = network.logits(rows[:, :-1])
            losses = torch.nn.functional.cross_entropy(
                scores.flatten(0, 1), rows[:, 1:].flatten(), reduction="none"
            )
            nats += float(losses[counts.flatten()].sum())
    return nats / math.log(2) / held_out.n_bytes
