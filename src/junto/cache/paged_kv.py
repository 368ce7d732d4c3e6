"""Paged keys and values of the attention layers that forget alike.

All layers of a group share the block tables of a slot; each layer has its own arrays. A group with
a sliding window frees the blocks that no later query can see. With a quantised type a group without
one lets its blocks age: those a query sees from afar are codes. Both keep one block of slack, so
that the last 64 tokens can always be dropped again.

    positions        0 ... 63 | 64 ... | ...        | 512 ... 575 | 576 ... 639 | 640 ...
    block                0    |   1    | 2  ...  7  |      8      |      9      |   10
    by age, kept as    f16    | codes  | codes, f16 |             f16, 8: slack
    sliding window     freed, first = 8             |  pool 7     |  pool 2     |  pool 4
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from junto.cache.block_pool import BlockArray, BlockPool, BlockRun
from junto.cache.kv_type import FLOAT32, N_GROUP, KVType
from junto.errors import RequestError
from junto.ops.views import CHUNK, AgedKV, BlockTable, Codes, Holder, KVView, Span


@dataclass(slots=True)
class _Seat:
    """Where one sequence has its blocks.

    pinned   float blocks from 0 on, which never age
    recent   float blocks behind them
    aged     codes of blocks behind the pinned ones; those below `n_coded` are written
    """

    pinned: BlockRun
    recent: BlockRun
    aged: BlockRun
    n_coded: int = 0

    def clear(self) -> None:
        for run in (self.pinned, self.recent, self.aged):
            run.clear()
        self.n_coded = 0


class PagedKV:
    """Keys and values of `n_layer` attention layers for `n_slot` sequences.

    window   positions a query sees, itself included; None sees all
    kv       how keys and values are held. Blocks age only without a window, which holds few anyway,
             and where head_dim is a multiple of 32
    holders  who else holds the arrays, and lets go of them before they move
    """

    def __init__(
        self,
        n_layer: int,
        n_head_kv: int,
        head_dim: int,
        n_slot: int,
        window: int | None,
        kv: KVType = FLOAT32,
        holders: Iterable[Holder] = (),
    ) -> None:
        self.window = window
        self.ages = kv.n_code_bit > 0 and window is None and head_dim % N_GROUP == 0
        self._n_recent = kv.n_recent
        self._n_pinned = kv.n_pinned if self.ages else 0
        k, v = (n_head_kv, head_dim, CHUNK), (n_head_kv, CHUNK, head_dim)
        self._floats = BlockPool(
            n_layer, [BlockArray(k, kv.dtype), BlockArray(v, kv.dtype)], holders
        )
        codes = _code_arrays(n_head_kv, head_dim, kv.n_code_bit) if self.ages else []
        self._codes = BlockPool(n_layer, codes, holders)
        self._seats = [self._seat() for _ in range(n_slot)]

    def _seat(self) -> _Seat:
        return _Seat(
            pinned=BlockRun(self._floats),
            recent=BlockRun(self._floats, self._n_pinned),
            aged=BlockRun(self._codes, self._n_pinned),
        )

    @property
    def n_bytes(self) -> int:
        """Bytes of keys and values that are resident."""
        return self._floats.n_bytes + self._codes.n_bytes

    def n_bytes_of(self, n_pos: int, n_step: int) -> int:
        """The most bytes that a sequence of `n_pos` positions holds, fed at most `n_step` at once.

        Works from sizes alone: blocks that are held, not what a pool keeps for growing.
        """
        n_block = -(-n_pos // CHUNK)
        n_float = n_block
        if self.window is not None:
            n_float = min(n_block, (self.window + CHUNK + n_step) // CHUNK + 2)
        elif self.ages:
            n_near = self._n_recent + (CHUNK + n_step) // CHUNK + 2
            n_float = min(n_block, self._n_pinned + n_near)
        n_code = max(0, self._end_of_codes(n_block - 1) - self._n_pinned)
        return n_float * self._floats.n_bytes_block + n_code * self._codes.n_bytes_block

    @property
    def n_block_used(self) -> int:
        """Float blocks that hold positions of a sequence."""
        return sum(len(seat.pinned) + len(seat.recent) for seat in self._seats)

    @property
    def n_block_aged(self) -> int:
        """Quantised blocks that hold positions of a sequence."""
        return sum(len(seat.aged) for seat in self._seats)

    def table(self, slot: int) -> BlockTable:
        """Where the float blocks of one sequence lie, behind the pinned ones."""
        return self._seats[slot].recent.table()

    def reserve(self, slot: int, n_pos: int) -> None:
        """Hold blocks for the positions below `n_pos`, and for the codes that their queries see."""
        seat, n_block = self._seats[slot], -(-n_pos // CHUNK)
        seat.pinned.extend_to(min(n_block, self._n_pinned))
        seat.recent.extend_to(n_block)
        seat.aged.extend_to(self._end_of_codes(n_block - 1))

    def _end_of_codes(self, query_block: int) -> int:
        """The first block behind the pinned ones that a query of this block sees as floats."""
        return max(self._n_pinned, query_block - self._n_recent) if self.ages else 0

    def _first_seen(self, n_pos: int) -> int:
        """The first block that a query at `n_pos` sees."""
        return 0 if self.window is None else max(0, n_pos - self.window + 1) // CHUNK

    def _first_float(self, n_pos: int) -> int:
        """The first block behind the pinned ones that a query at `n_pos` sees as floats."""
        return max(self._first_seen(n_pos), self._end_of_codes(n_pos // CHUNK))

    def view(self, layer: int, spans: tuple[Span, ...]) -> KVView:
        """What attention of the group's `layer` reads and writes in this step."""
        k, v = self._floats.layer(layer)
        tables = tuple(self.table(span.slot) for span in spans)
        return KVView(k, v, spans, tables, self._aged(layer, spans) if self.ages else None)

    def _aged(self, layer: int, spans: tuple[Span, ...]) -> AgedKV:
        k, k_scales, v, v_scales = self._codes.layer(layer)
        seats = [self._seats[span.slot] for span in spans]
        return AgedKV(
            k=Codes(k, k_scales),
            v=Codes(v, v_scales),
            n_pinned=self._n_pinned,
            n_recent=self._n_recent,
            pinned=tuple(seat.pinned.table().blocks for seat in seats),
            tables=tuple(seat.aged.table() for seat in seats),
            n_new=tuple(len(seat.aged) - seat.n_coded for seat in seats),
        )

    def forget_unseen(self, slot: int, n_pos: int) -> None:
        """Free the float blocks that no query from position n_pos - 64 on can see."""
        seat = self._seats[slot]
        seat.recent.drop_before(self._first_float(max(0, n_pos - CHUNK)))
        seat.n_coded = len(seat.aged)

    def check_truncate(self, slot: int, n_pos: int) -> None:
        """RequestError if float blocks that a query at `n_pos` sees have been freed."""
        held_from, first = self._seats[slot].recent.first, self._first_float(n_pos)
        if first >= held_from or (self.ages and first * CHUNK >= n_pos):
            return
        position = held_from * CHUNK
        if self.ages:
            why = f"keys before {position} are quantised"
            nearest = position + self._n_recent * CHUNK
        else:
            why = f"the sliding window's keys before {position} are freed"
            nearest = position + (self.window or 0) - 1
        raise RequestError(
            f"slot {slot}: cannot truncate to {n_pos} tokens: {why} (nearest: {nearest})"
        )

    def truncate(self, slot: int, n_pos: int) -> None:
        """Keep the blocks of positions below `n_pos`, and the codes that a query there sees."""
        seat, n_block = self._seats[slot], -(-n_pos // CHUNK)
        seat.pinned.drop_from(n_block)
        seat.recent.drop_from(n_block)
        seat.aged.drop_from(self._end_of_codes(n_pos // CHUNK))
        seat.n_coded = min(seat.n_coded, len(seat.aged))

    def clear(self, slot: int) -> None:
        """Free all blocks of a slot."""
        self._seats[slot].clear()


def _code_arrays(n_head_kv: int, head_dim: int, n_bit: int) -> list[BlockArray]:
    """Codes and scales of keys, then of values; see `Codes`."""
    dtype, n_row_in_byte = (np.int8, 1) if n_bit == 8 else (np.uint8, 2)
    scales = BlockArray((n_head_kv, head_dim // N_GROUP, CHUNK), np.float16)
    return [
        BlockArray((n_head_kv, head_dim // n_row_in_byte, CHUNK), dtype),
        scales,
        BlockArray((n_head_kv, CHUNK // n_row_in_byte, head_dim), dtype),
        scales,
    ]
