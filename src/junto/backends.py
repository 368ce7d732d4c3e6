"""The backends by name: how each is made, and how it can hold keys and values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from junto._kernels import ThreadPool
from junto.cache import KVType
from junto.errors import RequestError
from junto.ops.contract import Ops
from junto.ops.cpu import Cpu
from junto.ops.cpu.packed_cache import open_store
from junto.ops.cpu.store import InMemory, Progress, Store
from junto.ops.reference import Reference


@dataclass(frozen=True, slots=True)
class Backend:
    """How a backend is made, and how it can hold keys and values ("auto" is its choice)."""

    make: Callable[["Wishes"], Ops]
    kv: Mapping[str, KVType]


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


BACKENDS = {
    "cpu": Backend(_cpu, {"auto": np.float16, "f32": np.float32, "f16": np.float16}),
    "reference": Backend(_reference, {"auto": np.float32, "f32": np.float32}),
}
