"""One model with its cache: a step takes tokens of any sequences and gives logits.

A sequence continues where its slot stands, so a prompt may come in any pieces, beside others.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from junto.cache import Cache
from junto.models.architecture import Architecture, Drafting
from junto.models.loading import Weights
from junto.ops.contract import Ops
from junto.ops.views import F32, Batch


class Runner:
    """A model ready to step.

    architecture   the module whose `forward` runs; it takes cfg, weights, ops and cache
    """

    def __init__(
        self, architecture: Architecture, cfg: Any, weights: Weights, ops: Ops, cache: Cache
    ) -> None:
        self.architecture = architecture
        self.cfg = cfg
        self.weights = weights
        self.ops = ops
        self.cache = cache
        self._forward = partial(_forward, architecture, cfg, weights)

    def step(self, work: Sequence[tuple[int, Sequence[int]]], *, all_logits: bool = False) -> F32:
        """Feed each slot its next token ids, all in one ragged batch.

        work     (slot, token ids, at least one) for each sequence; no slot twice
        returns  float32 [n_sequence, n_vocab], the logits after each sequence's last token; with
                 `all_logits` [n_tok, n_vocab], after every token

        The slots advance. RequestError beyond the context or the vocabulary; a slot whose step
        raised must be closed.
        """
        parts = [(slot, self.cache.length(slot), ids) for slot, ids in work]
        batch = Batch.pack(parts, all_logits=all_logits)
        self.cache.begin(batch)
        with self.ops.step():
            logits = self.ops.run(self._forward, batch, self.cache)
        self.cache.commit(batch)
        return logits

    def draft(self, slot: int, ids: Sequence[int], next_ids: Sequence[int]) -> F32:
        """Feed a slot its next token ids, and the draft head what follows each of them.

        returns  float32 [n_tok, n_vocab], row i the draft's logits of the token after next_ids[i]

        The slot advances. All its tokens must have come this way, so that the draft layer has seen
        them; the weights must have a draft. RequestError as in `step`.
        """
        assert self.weights.draft is not None, "no draft head is loaded"
        assert len(ids) == len(next_ids), "one token follows each"
        drafting = cast(Drafting, self.architecture)
        batch = Batch.pack([(slot, self.cache.length(slot), ids)], all_logits=True)
        following = np.asarray(next_ids, dtype=np.int32)
        self.cache.begin(batch)
        with self.ops.step():
            x = drafting.trunk(self.cfg, self.weights, self.ops, batch, self.cache)
            logits = drafting.draft(
                self.cfg, self.weights, self.ops, x, following, batch, self.cache
            )
        self.cache.commit(batch)
        return logits


def _forward(
    architecture: Architecture, cfg: Any, weights: Weights, ops: Ops, batch: Batch, cache: Cache
) -> F32:
    return architecture.forward(cfg, weights, ops, batch, cache)
