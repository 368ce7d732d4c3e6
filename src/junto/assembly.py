"""From a file to a model that runs: what is asked of memory, and how the parts are joined."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from junto.backends import BACKENDS, KV_CHOICES, Wishes
from junto.cache import FLOAT32, KV_NAMES, KVType
from junto.engine.runner import Runner
from junto.errors import RequestError
from junto.formats.gguf import GGUFFile
from junto.formats.safetensors import Checkpoint
from junto.memory import memory
from junto.memory_plan import chosen_context, gb
from junto.model import Model
from junto.models.loading import Blueprint, locate, matrices, open_file, take
from junto.models.weight_sizes import n_bytes_of
from junto.ops.contract import Ops
from junto.ops.cpu.backlog import n_bytes_to_come
from junto.ops.cpu.store import Progress, unseen
from junto.ops.cpu.weights import is_put_off
from junto.text import text_of

N_SLOT = 8
"""Sequences a model can hold at once."""


def load(
    path: str | os.PathLike[str],
    backend: str = "cpu",
    kv: str = "auto",
    n_ctx: int | None = None,
    n_threads: int | None = None,
    *,
    n_slot: int = N_SLOT,
    keep_packed: bool = True,
    draft: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Model:
    """Load a model from a GGUF, a safetensors file, or a folder of safetensors with config.json.

    backend    "cpu": C++ kernels; "reference": plain NumPy, slow and obviously right
    kv         how keys and values are held: "f32", "f16", or float16 near and "q8_0" or "q4_0" from
               afar; "auto" is float32 on reference and the architecture's choice on cpu
    n_ctx      most tokens of one sequence; None: what the model was trained for, or as much of it
               as fits into free memory
    n_threads  threads of the cpu backend; None: one each physical core this process may use
    n_slot     sequences that can be held at once
    keep_packed   keep the packed weights of a large model in a file that the next start maps, in
               `junto.ops.cpu.packed_cache.packed_folder()`
    draft      take the draft head too, for `Model.draft_logits`, where the file has one; it costs
               memory, and `generate` and `chat` do not use it
    progress   called with (bytes packed, bytes of all that loading packs); experts come later, when
               a token needs them or the model is idle

    JuntoError in one line where the file, the model or an argument is not as it must be; RoomError,
    before any is taken, where memory does not hold the weights and one full sequence.
    """
    if backend not in BACKENDS:
        raise RequestError(f"backend {backend!r} is unknown; this build has: {', '.join(BACKENDS)}")
    chosen = BACKENDS[backend]
    if kv not in KV_CHOICES:
        raise RequestError(f"kv {kv!r} is unknown; this build has: {', '.join(KV_CHOICES)}")
    blueprint = locate(open_file(Path(path)), draft=draft)
    _check_context(blueprint, n_ctx)
    files = blueprint.file.files
    wishes = Wishes(files, n_threads, keep_packed, _counted(blueprint, progress))
    name = next((n for n in KV_NAMES if n == kv), chosen.kv or blueprint.architecture.KV_DEFAULT)
    blueprint, n_ctx = _planned(blueprint, KVType(name), n_ctx, backend)
    return assemble(blueprint, chosen.make(wishes), n_ctx, n_slot, KVType(name))


def _planned(
    blueprint: Blueprint, kv: KVType, n_ctx: int | None, backend: str
) -> tuple[Blueprint, int]:
    """The context that fits, and a note where it is shorter than the model's; or RoomError."""
    free = _free()
    fitting = chosen_context(blueprint, kv, n_ctx, free, backend=backend)
    most = blueprint.cfg.n_ctx_train
    if n_ctx is not None or fitting == most:
        return blueprint, fitting
    note = (
        f"{blueprint.file.path.name}: the context is {fitting:,} tokens, as much as fits into "
        f"{gb(free or 0)} of free memory; the model was trained for {most:,}"
    )
    return replace(blueprint, notes=(*blueprint.notes, note)), fitting


def _free() -> int | None:
    """Free memory, less what other models of this process have yet to take."""
    free = memory().free
    return None if free is None else max(0, free - n_bytes_to_come())


def _counted(blueprint: Blueprint, tell: Callable[[int, int], None] | None) -> Progress:
    """A counter of bytes that tells their sum, and that of all that is not put off."""
    if tell is None:
        return unseen
    total = sum(n_bytes_of(found) for found in matrices(blueprint) if not is_put_off(found))
    n_done = 0

    def advance(n_bytes: int) -> None:
        nonlocal n_done
        n_done += n_bytes
        tell(n_done, total)

    return advance


def _check_context(blueprint: Blueprint, n_ctx: int | None) -> None:
    most, name = blueprint.cfg.n_ctx_train, blueprint.file.path.name
    if n_ctx is not None and not 1 <= n_ctx <= most:
        raise RequestError(
            f"n_ctx is {n_ctx:,}, expected 1 to {most:,}, the context that {name} was trained for"
        )


def assemble(
    blueprint: Blueprint,
    ops: Ops,
    n_ctx: int | None = None,
    n_slot: int = N_SLOT,
    kv: KVType = FLOAT32,
) -> Model:
    """Take the weights of a located model and join them with a cache and a tokenizer."""
    cfg, name = blueprint.cfg, blueprint.file.path.name
    _check_context(blueprint, n_ctx)
    text = text_of(blueprint.file, cfg.n_vocab)
    cache = blueprint.architecture.make_cache(cfg, n_slot, n_ctx or cfg.n_ctx_train, kv)
    runner = Runner(blueprint.architecture, cfg, take(blueprint, ops), ops, cache)
    notes = (*blueprint.notes, *(text.notes if text else ()), *ops.notes, *cache.notes)
    return Model(name, cfg, text, runner, notes, _is_demo(blueprint.file))


def _is_demo(file: GGUFFile | Checkpoint) -> bool:
    return isinstance(file, GGUFFile) and bool(file.metadata.get("junto.demo", False))
