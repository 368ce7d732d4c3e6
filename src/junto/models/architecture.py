"""What an architecture file declares, and how it is found by a file's name for it."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import junto.models
from junto.cache import Cache, KVName, KVType
from junto.errors import ModelError
from junto.formats.gguf_encoding import OutValue
from junto.formats.mapped_file import quoted
from junto.models.keys import Keys
from junto.models.table import Table
from junto.ops.contract import Ops
from junto.ops.views import F32, I32, Batch


@dataclass(frozen=True, slots=True)
class Names:
    """What files call an architecture.

    gguf   values of `general.architecture`
    hf     members of `architectures` in config.json
    """

    gguf: tuple[str, ...]
    hf: tuple[str, ...]


class Config(Protocol):
    """The part of every architecture's frozen config that others may ask for."""

    @property
    def n_layer(self) -> int:
        """Layers of the trunk."""
        ...

    @property
    def n_vocab(self) -> int:
        """Rows of the embedding."""
        ...

    @property
    def n_ctx_train(self) -> int:
        """Longest context the model was trained for."""
        ...

    def gguf_keys(self) -> dict[str, OutValue]:
        """What `from_gguf` reads, without the prefix; ModelError where a GGUF cannot say it."""
        ...


class ConfigType(Protocol):
    """How a config is read from either kind of file."""

    def from_gguf(self, keys: Keys, n_vocab: int) -> Config:
        """From GGUF metadata; `n_vocab` counts the file's tokens, or its embedding's rows."""
        ...

    def from_hf(self, keys: Keys) -> Config:
        """From config.json."""
        ...


class Architecture(Protocol):
    """The module of one architecture: `models/<name>.py`.

    KV_DEFAULT is how a fast backend holds its keys and values unless it is told; measured, see
    docs/accuracy.md.
    """

    __name__: str
    ARCHITECTURES: Names
    Config: ConfigType
    TENSORS: Table
    IGNORED_KEYS: frozenset[str]
    KV_DEFAULT: KVName

    def make_cache(self, cfg: Any, n_slot: int, n_ctx: int, kv: KVType = ...) -> Cache:
        """A cache for this model's layers; `kv` is how keys and values are held."""
        ...

    def forward(self, cfg: Any, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
        """Logits [n_logit, n_vocab] of the batch's `logit_rows`; the caches advance."""
        ...


@cache
def architectures() -> tuple[Architecture, ...]:
    """Every module in this package that declares ARCHITECTURES."""
    found: list[Any] = []
    for info in pkgutil.iter_modules(junto.models.__path__):
        module = importlib.import_module(f"junto.models.{info.name}")
        if hasattr(module, "ARCHITECTURES"):
            found.append(module)
    return tuple(found)


class Drafting(Architecture, Protocol):
    """An architecture whose files may hold a draft head (`TENSORS.draft`)."""

    def trunk(self, cfg: Any, weights: Any, ops: Ops, batch: Batch, cache: Cache) -> F32:
        """The residual stream [n_tok, n_embd] behind the last layer; the caches advance."""
        ...

    def draft(
        self,
        cfg: Any,
        weights: Any,
        ops: Ops,
        x: F32,
        next_ids: I32,
        batch: Batch,
        cache: Cache,
    ) -> F32:
        """Logits [n_tok, n_vocab] of the tokens after `next_ids`; the draft's cache advances.

        x          what `trunk` gave for the same batch, in the same step
        next_ids   int32 [n_tok]; the token that follows each of the batch's
        """
        ...


FORMS_OF_OTHERS = {
    "gptoss": "Ollama's own form of gpt-oss, whose tensors bear other names; fetch the common one: "
    "junto pull gpt-oss:20b",
}
"""Files of other programs that hold an architecture read here in a form that is not."""


def by_gguf_name(metadata: Mapping[str, object], source: str) -> tuple[Architecture, str]:
    """The architecture a GGUF names, and the name, which prefixes its keys."""
    name = metadata.get("general.architecture")
    if not isinstance(name, str):
        raise ModelError(f"{source}: 'general.architecture' is {quoted(name)}, expected a name")
    for architecture in architectures():
        if name in architecture.ARCHITECTURES.gguf:
            return architecture, name
    if name in FORMS_OF_OTHERS:
        raise ModelError(f"{source}: 'general.architecture' is {name!r}, {FORMS_OF_OTHERS[name]}")
    known = sorted(n for a in architectures() for n in a.ARCHITECTURES.gguf)
    raise ModelError(_unknown(source, "'general.architecture'", name, known))


def by_hf_name(config: Mapping[str, object], source: str) -> Architecture:
    """The architecture a config.json names."""
    names = config.get("architectures")
    if not (isinstance(names, list) and len(names) == 1 and isinstance(names[0], str)):
        raise ModelError(
            f"{source}: 'architectures' is {quoted(names)}, expected a list of one name"
        )
    for architecture in architectures():
        if names[0] in architecture.ARCHITECTURES.hf:
            return architecture
    known = sorted(n for a in architectures() for n in a.ARCHITECTURES.hf)
    raise ModelError(_unknown(source, "'architectures'", names[0], known))


def _unknown(source: str, key: str, name: str, known: list[str]) -> str:
    return (
        f"{source}: {key} is {quoted(name)}; this build reads: {', '.join(known)}. "
        "To add one, see docs/add-a-model.md."
    )
