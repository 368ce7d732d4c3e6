"""The backends by name: how each is made, and how it holds keys and values by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from junto._kernels import ThreadPool
from junto.cache import KV_NAMES, KVName
from junto.errors import RequestError
from junto.ops.contract import Ops
from junto.ops.cpu import Cpu
from junto.ops.cpu.packed_cache import open_store
from junto.ops.cpu.store import InMemory, Progress, Store
from junto.ops.reference import Reference


@dataclass(frozen=True, slots=True)
class Backend:
    """How a backend is made, and how it holds keys and values by itself (None: the model says)."""

    make: Callable[["Wishes"], Ops]
    kv: KVName | None


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a backend is made from.

    files      what the weights come from
    keep       packed weights may be kept in a file for the next start
    progress   told how many bytes of weights have been packed since the last call
    """

    files: tuple[Path, ...]
    n_threads: int | None
    keep: bool
    progress: Progress


def _cpu(wishes: Wishes) -> Ops:
    def store(pool: ThreadPool) -> Store:
        if not wishes.keep:
            return InMemory(wishes.progress)
        return open_store(wishes.files, pool, progress=wishes.progress)

    return Cpu(wishes.n_threads, store=store)


def _reference(wishes: Wishes) -> Ops:
    if wishes.n_threads is not None:
        raise RequestError("backend 'reference' leaves threads to NumPy; n_threads is for 'cpu'")
    return Reference()


BACKENDS = {"cpu": Backend(_cpu, None), "reference": Backend(_reference, "f32")}
KV_CHOICES = ("auto", *KV_NAMES)
"""How keys and values may be held."""
