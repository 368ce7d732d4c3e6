"""Memory of running sequences: paged keys and values, anchored DeltaNet state.

A cache hands out the views of `junto.ops.views` and knows no backend. Capacity (`n_ctx`, `n_slot`)
lives in `Cache` alone; blocks are allocated when positions are first needed.
"""

from junto.cache.cache import AttentionState, Cache, DeltaState, LayerState
from junto.cache.kv_type import FLOAT32, KV_NAMES, KVName, KVType

__all__ = [
    "FLOAT32",
    "KV_NAMES",
    "AttentionState",
    "Cache",
    "DeltaState",
    "KVName",
    "KVType",
    "LayerState",
]
