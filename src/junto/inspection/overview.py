"""A model file at a glance: what it is, how large, how it talks, what running it takes.

A file is told as far as it goes: vocabularies without tensors, architectures this build cannot run,
files that were cut short. What could not be told stands among the faults, one line each.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from junto.cache import KV_NAMES, KVType
from junto.errors import JuntoError, ModelError
from junto.formats.gguf import GGUFFile, survey_gguf
from junto.formats.safetensors import Checkpoint, read_safetensors
from junto.inspection.listing import TypeShare, mix
from junto.inspection.speed import SpeedEstimate, estimate
from junto.memory import memory
from junto.memory_plan import Plan, largest_context, plan
from junto.models.loading import Blueprint, locate
from junto.models.weight_sizes import WeightSizes, weight_sizes
from junto.text import Text, load_text

CONTEXTS = (4096, 32768)
"""Contexts that plans are told for, besides the longest."""


@dataclass(frozen=True, slots=True)
class Talk:
    """The text side: tokens, the family that writes conversations, whether there is a template."""

    n_vocab: int
    dialogue: str
    can_chat: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and the longest context that fits with such keys and values."""

    plan: Plan
    fits: bool
    longest: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What was found; None where the file does not tell, or is not understood.

    config   sizes of the architecture, by the names of its config
    free     bytes of memory that a model may take now
    faults   what is wrong, or not understood, one line each
    """

    path: Path
    format: str
    files: tuple[Path, ...]
    n_bytes: int
    architecture: str | None
    name: str | None
    config: Mapping[str, Any]
    mix: tuple[TypeShare, ...]
    sizes: WeightSizes | None
    talk: Talk | None
    plans: tuple[Planned, ...]
    free: int | None
    speed: SpeedEstimate | None
    faults: tuple[str, ...]


def open_for_survey(path: Path) -> tuple[GGUFFile | Checkpoint, tuple[str, ...]]:
    """Open a file that may be damaged; FormatError where not even its header can be read."""
    if not path.exists():
        raise ModelError(f"{path}: no such file or folder")
    if path.is_dir() or path.suffix in (".safetensors", ".json"):
        return read_safetensors(path), ()
    return survey_gguf(path)


def inspect(path: str | Path, n_ctx: int | None = None) -> Overview:
    """Look at a model file without reading its weights.

    n_ctx   a context to plan memory for; None: a few usual ones

    FormatError or ModelError where there is nothing that can be read at all.
    """
    path = Path(path)
    file, damage = open_for_survey(path)
    faults = list(damage)
    blueprint = _attempt(lambda: locate(file), faults) if file.tensors else None
    text = _attempt(lambda: load_text(path), faults)
    sizes = None if blueprint is None else weight_sizes(blueprint)
    free = memory().free
    plans = () if blueprint is None else tuple(_plans(blueprint, free, n_ctx))
    if not file.tensors:
        faults.append(f"{path.name}: holds no tensors, a vocabulary at most")
    return Overview(
        path=path,
        format=f"GGUF v{file.version}" if isinstance(file, GGUFFile) else "safetensors",
        files=file.files,
        n_bytes=sum(part.stat().st_size for part in file.files),
        architecture=_architecture(file),
        name=_name(file),
        config={} if blueprint is None else _config(blueprint.cfg),
        mix=tuple(mix(file.tensors.values())),
        sizes=sizes,
        talk=None if text is None else _talk(text),
        plans=plans,
        free=free,
        speed=None if sizes is None or not plans else _speed(sizes, plans[0].plan),
        faults=tuple(faults),
    )


def _attempt(look: Any, faults: list[str]) -> Any:
    """What a look gives, or None and a fault."""
    try:
        return look()
    except JuntoError as error:
        if str(error) not in faults:
            faults.append(str(error))
        return None


def _architecture(file: GGUFFile | Checkpoint) -> str | None:
    if isinstance(file, GGUFFile):
        name = file.metadata.get("general.architecture")
    else:
        names = file.config.get("architectures")
        name = names[0] if isinstance(names, list) and names else None
    return name if isinstance(name, str) else None


def _name(file: GGUFFile | Checkpoint) -> str | None:
    if isinstance(file, Checkpoint):
        return file.path.resolve().name
    name = file.metadata.get("general.name")
    return name if isinstance(name, str) else None


def _config(cfg: Any) -> dict[str, Any]:
    return dataclasses.asdict(cfg)


def _talk(text: Text) -> Talk:
    family = type(text.dialogue).__name__
    return Talk(text.tokenizer.n_vocab, family, text.can_chat)


def _plans(blueprint: Blueprint, free: int | None, n_ctx: int | None) -> list[Planned]:
    most = blueprint.cfg.n_ctx_train
    usual = [n for n in CONTEXTS if n < most] + [most]
    wanted = usual if n_ctx is None else [min(n_ctx, most)]
    planned = []
    for name in KV_NAMES:
        kv = KVType(name)
        longest = largest_context(blueprint, kv, free)
        for n in wanted:
            made = plan(blueprint, n, kv)
            planned.append(Planned(made, made.fits(free), longest))
    return planned


def _speed(sizes: WeightSizes, made: Plan) -> SpeedEstimate:
    """A token reads its weights, and reads and writes the state of recurrent layers."""
    return estimate(sizes.n_bytes_active + 2 * made.state)
