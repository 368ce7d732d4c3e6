"""A model without weights for tests of the engine: after token t it prefers t + 1.

Its cache holds KV blocks of one tiny layer, so slots, lengths and limits are real.
"""

from typing import Any

import numpy as np

from junto.cache import AttentionState, Cache
from junto.engine.runner import Runner
from junto.models.loading import Weights
from junto.ops.contract import Ops
from junto.ops.reference import Reference
from junto.ops.views import F32, Batch

N_VOCAB = 50


class CountingArchitecture:
    """Stands for an architecture module; records the size of every step; fails when told to."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.fails = False

    def forward(self, cfg: Any, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
        """Logits that are largest at the next number."""
        if self.fails:
            raise MemoryError
        self.steps.append(len(batch.token_ids))
        logits = np.zeros((len(batch.logit_rows), N_VOCAB), np.float32)
        following = (batch.token_ids[batch.logit_rows] + 1) % N_VOCAB
        logits[np.arange(len(following)), following] = 9.0
        return logits


def counting_runner(n_ctx: int = 2000, n_slot: int = 2) -> tuple[Runner, CountingArchitecture]:
    """A runner over the counting model."""
    architecture = CountingArchitecture()
    cache = Cache([AttentionState(1, 2)], n_slot=n_slot, n_ctx=n_ctx)
    as_any: Any = architecture
    return Runner(as_any, None, Weights(None, ()), Reference(), cache), architecture
