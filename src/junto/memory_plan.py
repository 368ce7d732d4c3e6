"""How much memory a model will take, before any is taken, and what would fit where it does not.

Worked out from the located tensors and the cache's own sizes; nothing is allocated. The plan covers
what a process cannot do without: weights as a backend holds them, full sequences, and the work of a
step. Sequences beyond `n_slot` take more as they grow.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from junto.cache import KV_NAMES, KVName, KVType
from junto.engine.generation import PREFILL_STEP
from junto.errors import RoomError
from junto.models.loading import Blueprint
from junto.models.weight_sizes import WeightSizes, weight_sizes

PACKED = 1.04
"""Bytes of packed weights to those of the file, at most."""

DECODED_BYTES = 2 << 30
"""What the reference backend keeps of decoded weights, in float64, at most."""

BASE_BYTES = 128 << 20
"""Interpreter, libraries and vocabulary."""

N_ACTIVATION = 16
"""Rows of n_embd and of the widest matrix that a token of a step holds at once, generously."""

LEAST_CONTEXT = 2048
"""A default context below this is none: better to say that the model does not fit."""

SPARE = 0.95
"""Share of free memory that may be planned with."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Bytes by use, for `n_slot` full sequences of `n_ctx` tokens.

    kv      keys and values
    state   of recurrent layers
    work    activations of a step, and the program itself
    """

    n_ctx: int
    n_slot: int
    kv_name: KVName
    weights: int
    kv: int
    state: int
    work: int

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.kv + self.state + self.work

    def fits(self, free: int | None) -> bool:
        """Whether so many free bytes are enough; None, where nobody knows, is."""
        return free is None or self.total <= SPARE * free

    def told(self) -> str:
        """The parts in words."""
        parts = {
            "weights": self.weights,
            "keys and values": self.kv,
            "state": self.state,
            "work": self.work,
        }
        return ", ".join(f"{name} {gb(size)}" for name, size in parts.items() if size)


def plan(
    blueprint: Blueprint, n_ctx: int, kv: KVType, n_slot: int = 1, *, backend: str = "cpu"
) -> Plan:
    """Work out the memory of a located model.

    n_ctx    tokens of a sequence
    kv       how keys and values are held
    n_slot   sequences that are full at once
    """
    return _Planner(blueprint, backend).plan(n_ctx, kv, n_slot)


def largest_context(
    blueprint: Blueprint, kv: KVType, free: int | None, *, n_slot: int = 1, backend: str = "cpu"
) -> int:
    """The longest context that fits, at most what the model was trained for; 0 if none does."""
    return _Planner(blueprint, backend).largest(kv, free, n_slot)


def chosen_context(
    blueprint: Blueprint, kv: KVType, n_ctx: int | None, free: int | None, *, backend: str = "cpu"
) -> int:
    """The context to load with: the wanted one, or as much as fits where None is wanted.

    RoomError in one line, with both sizes and what would fit, where one sequence does not.
    """
    planner, most = _Planner(blueprint, backend), blueprint.cfg.n_ctx_train
    fitting = planner.largest(kv, free, 1)
    least = min(most, LEAST_CONTEXT) if n_ctx is None else n_ctx
    if fitting >= least:
        return fitting if n_ctx is None else n_ctx
    wanted = planner.plan(least, kv, 1)
    assert free is not None, "everything fits where nobody knows what is free"
    raise RoomError(
        f"{blueprint.file.path.name}: needs {gb(wanted.total)} of memory for a context of "
        f"{least:,} ({wanted.told()}), {gb(free)} are free; {_advice(planner, kv, free, fitting)}"
    )


def _advice(planner: "_Planner", kv: KVType, free: int, fitting: int) -> str:
    """What would fit: a shorter context, smaller keys and values, or a smaller file."""
    if fitting >= 256:
        offers, longest = [f"n_ctx {fitting:,}"], fitting
        for name in _smaller(kv.name):
            n_ctx = planner.largest(replace(kv, name=name), free, 1)
            if n_ctx > longest:
                offers, longest = [*offers, f"kv {name} with n_ctx {n_ctx:,}"], n_ctx
        return f"{' or '.join(offers)} would fit"
    smallest = planner.plan(min(planner.n_ctx_train, LEAST_CONTEXT), kv, 1)
    room = int((SPARE * free - (smallest.total - smallest.weights)) / PACKED)
    if room <= 0:
        return "no file of this model would fit; free some memory"
    return f"a file of at most {gb(room)} would fit (junto convert --type makes smaller ones)"


def _smaller(name: KVName) -> Iterable[KVName]:
    return KV_NAMES[KV_NAMES.index(name) + 1 :]


class _Planner:
    """What does not depend on the context, worked out once."""

    def __init__(self, blueprint: Blueprint, backend: str) -> None:
        self._blueprint = blueprint
        self._sizes = weight_sizes(blueprint)
        self._weights = _held(self._sizes, backend)
        self.n_ctx_train: int = blueprint.cfg.n_ctx_train

    def plan(self, n_ctx: int, kv: KVType, n_slot: int) -> Plan:
        architecture, cfg = self._blueprint.architecture, self._blueprint.cfg
        cache = architecture.make_cache(cfg, 0, n_ctx, kv)
        n_bytes_kv, n_bytes_state = cache.n_bytes_of(n_slot, n_ctx, PREFILL_STEP)
        n_tok = min(n_ctx, PREFILL_STEP)
        activations = 4 * N_ACTIVATION * n_tok * (cfg.n_embd + self._sizes.n_widest)
        work = BASE_BYTES + activations + 4 * n_slot * cfg.n_vocab
        return Plan(n_ctx, n_slot, kv.name, self._weights, n_bytes_kv, n_bytes_state, work)

    def largest(self, kv: KVType, free: int | None, n_slot: int) -> int:
        low, high = 0, self.n_ctx_train
        if self.plan(high, kv, n_slot).fits(free):
            return high
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.plan(middle, kv, n_slot).fits(free)
            low, high = (middle, high) if fits else (low, middle)
        return low // 64 * 64 if low > 64 else low


def _held(sizes: WeightSizes, backend: str) -> int:
    """Bytes of weights as a backend holds them; the file itself can be forgotten and read again."""
    if backend == "reference":
        return sizes.n_bytes + min(DECODED_BYTES, 8 * sizes.n_parameter)
    return int(PACKED * sizes.n_bytes)


def gb(n_bytes: int) -> str:
    """A size for people."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 10**9 else f"{n_bytes / 1e6:.1f} MB"
