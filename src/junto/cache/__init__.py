"""Memory of running sequences: paged keys and values, anchored DeltaNet state.

A cache hands out the views of `junto.ops.views` and knows no backend. Capacity (`n_ctx`, `n_slot`)
lives in `Cache` alone; blocks are allocated when positions are first needed.
"""

from junto.cache.cache import AttentionState, Cache, DeltaState, LayerState
from junto.cache.paged_kv import KVType

__all__ = ["AttentionState", "Cache", "DeltaState", "KVType", "LayerState"]
