"""How keys and values are held, and for how long in float16 where they are quantised by age."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from junto.ops.views import CHUNK

KVName = Literal["f32", "f16", "q8_0", "q4_0"]
KV_NAMES: tuple[KVName, ...] = get_args(KVName)

N_GROUP = 32
"""Values along head_dim that share a scale, in Q8_0 and in Q4_0."""


@dataclass(frozen=True, slots=True)
class KVType:
    """How keys and values are held.

    With a quantised type the first positions and the most recent ones stay float16, in whole
    blocks of 64; the other two fields say how many, and mean nothing otherwise.

    window   at least the last `window` positions before a query are float16
    sinks    so are the first `sinks` positions of the sequence
    """

    name: KVName = "f32"
    window: int = 128
    sinks: int = 64

    @property
    def dtype(self) -> type[np.float32] | type[np.float16]:
        """How a block is held before it ages."""
        return np.float32 if self.name == "f32" else np.float16

    @property
    def n_code_bit(self) -> int:
        """Bits of a value in an aged block; 0 where blocks do not age."""
        return {"q8_0": 8, "q4_0": 4}.get(self.name, 0)

    @property
    def n_recent(self) -> int:
        """Blocks before a query's own that it sees in float16."""
        return -(-self.window // CHUNK)

    @property
    def n_pinned(self) -> int:
        """First blocks of a sequence that never age."""
        return -(-self.sinks // CHUNK)


FLOAT32 = KVType("f32")
