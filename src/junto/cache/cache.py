"""One cache for all layers of a model and all running sequences.

A sequence sits in a slot. A step is `begin` (checks and allocates), the forward pass (writes
through the views), `commit` (the new tokens count). A step that raises in between leaves its slots
undefined: they must be closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakSet

from junto.cache.delta_state import DeltaStates
from junto.cache.kv_type import FLOAT32, N_GROUP, KVType
from junto.cache.paged_kv import PagedKV
from junto.errors import RequestError
from junto.ops.views import Batch, DeltaView, Holder, KVView


@dataclass(frozen=True, slots=True)
class AttentionState:
    """What one attention layer remembers: keys and values, of all positions or of a window."""

    n_head_kv: int
    head_dim: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class DeltaState:
    """What one DeltaNet layer remembers: a state a value head, and the last n_tap - 1 inputs."""

    n_head_k: int
    n_head_v: int
    head_dim: int
    n_tap: int


LayerState = AttentionState | DeltaState


class Cache:
    """Slots for `n_slot` sequences of at most `n_ctx` tokens.

    layers   what each layer of the model remembers; layers that remember alike share a group
    kv       how keys and values are held
    """

    def __init__(
        self,
        layers: Sequence[LayerState],
        *,
        n_slot: int,
        n_ctx: int,
        kv: KVType = FLOAT32,
    ) -> None:
        self.n_ctx = n_ctx
        self.n_slot = n_slot
        self._kv_type = kv
        self._length = [0] * n_slot
        self._free = list(reversed(range(n_slot)))
        members: dict[LayerState, int] = {}
        self._layers: list[tuple[LayerState, int]] = []
        for state in layers:
            index = members.get(state, 0)
            members[state] = index + 1
            self._layers.append((state, index))
        self._holders: WeakSet[Holder] = WeakSet()
        self._kv = {
            s: PagedKV(n, s.n_head_kv, s.head_dim, n_slot, s.window, kv, self._holders)
            for s, n in members.items()
            if isinstance(s, AttentionState)
        }
        self._delta = {
            s: DeltaStates(n, s.n_head_k, s.n_head_v, s.head_dim, s.n_tap, n_slot)
            for s, n in members.items()
            if isinstance(s, DeltaState)
        }

    @property
    def layers(self) -> tuple[LayerState, ...]:
        """What each layer remembers."""
        return tuple(state for state, _ in self._layers)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of how keys and values are held, one line each."""
        if self._kv_type.n_code_bit == 0:
            return ()
        odd = sorted({state.head_dim for state in self._kv if state.head_dim % N_GROUP})
        return tuple(
            f"kv {self._kv_type.name}: heads of {head_dim} stay f16; only a multiple of {N_GROUP} "
            "can be quantised"
            for head_dim in odd
        )

    @property
    def kv_groups(self) -> tuple[PagedKV, ...]:
        """The groups of attention layers, for inspection."""
        return tuple(self._kv.values())

    @property
    def n_bytes_kv(self) -> int:
        """Resident bytes of keys and values."""
        return sum(group.n_bytes for group in self._kv.values())

    @property
    def n_bytes_delta(self) -> int:
        """Resident bytes of DeltaNet states."""
        return sum(states.n_bytes for states in self._delta.values())

    def n_bytes_of(self, n_slot: int, n_pos: int, n_step: int) -> tuple[int, int]:
        """What `n_slot` sequences of `n_pos` tokens hold: bytes of keys and values, of states.

        n_step   the most tokens of a sequence in one step

        Works from sizes alone, so a cache without slots, which holds nothing, tells it too.
        """
        kv = sum(group.n_bytes_of(n_pos, n_step) for group in self._kv.values())
        delta = sum(states.n_bytes_slot for states in self._delta.values())
        return n_slot * kv, n_slot * delta

    def hold(self, holder: Holder) -> None:
        """Have `holder` let go of the views' arrays before they move; it is not kept alive."""
        self._holders.add(holder)

    def open(self) -> int:
        """Take a free slot. RequestError if every slot is taken."""
        if not self._free:
            raise RequestError(f"all {self.n_slot} slots are taken; close one first")
        return self._free.pop()

    def close(self, slot: int) -> None:
        """Forget a sequence and free its slot."""
        assert slot not in self._free, f"slot {slot} is not open"
        self._length[slot] = 0
        for group in self._kv.values():
            group.clear(slot)
        for states in self._delta.values():
            states.clear(slot)
        self._free.append(slot)

    def length(self, slot: int) -> int:
        """Tokens of the sequence that are in the cache."""
        return self._length[slot]

    @property
    def n_tok(self) -> int:
        """Tokens of all sequences."""
        return sum(self._length)

    def begin(self, batch: Batch) -> None:
        """Check a step and hold the blocks it writes. RequestError beyond `n_ctx`."""
        for span in batch.spans:
            assert span.slot not in self._free, f"slot {span.slot} is not open"
            assert span.pos == self._length[span.slot], "a span continues its sequence"
            if span.end > self.n_ctx:
                raise RequestError(
                    f"slot {span.slot}: {span.end:,} tokens do not fit the context of "
                    f"{self.n_ctx:,} (raise n_ctx)"
                )
        for span in batch.spans:
            for group in self._kv.values():
                group.reserve(span.slot, span.end)

    def commit(self, batch: Batch) -> None:
        """Count the tokens of a step whose forward pass is done."""
        for span in batch.spans:
            self._length[span.slot] = span.end
            for group in self._kv.values():
                group.forget_unseen(span.slot, span.end)
            for states in self._delta.values():
                states.commit(span)

    def truncate(self, slot: int, n_tok: int) -> None:
        """Drop the tokens from `n_tok` on, or refuse with RequestError and change nothing."""
        if not 0 <= n_tok <= self._length[slot]:
            raise RequestError(
                f"slot {slot}: cannot truncate to {n_tok} tokens: it holds {self._length[slot]}"
            )
        for kept in self._kv.values():
            kept.check_truncate(slot, n_tok)
        for states in self._delta.values():
            states.check_truncate(slot, n_tok)
        for group in self._kv.values():
            group.truncate(slot, n_tok)
        self._length[slot] = n_tok

    def kv(self, layer: int, batch: Batch) -> KVView:
        """Keys and values of layer `layer` (an attention layer) for one step."""
        state, index = self._layers[layer]
        assert isinstance(state, AttentionState), f"layer {layer} is no attention layer"
        return self._kv[state].view(index, batch.spans)

    def delta(self, layer: int, batch: Batch) -> DeltaView:
        """Anchored state of layer `layer` (a DeltaNet layer) for one step."""
        state, index = self._layers[layer]
        assert isinstance(state, DeltaState), f"layer {layer} is no DeltaNet layer"
        return self._delta[state].view(index, batch.spans)
