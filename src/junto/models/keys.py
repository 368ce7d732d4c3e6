"""Reads the metadata of a GGUF or a config.json key by key, and refuses what it cannot use.

Every key is asked for by name. A missing key is an error unless the caller says what its absence
means; a value of the wrong kind or out of range is an error; what nobody asked for can be listed.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from junto.errors import ModelError
from junto.formats.gguf_encoding import OutValue

Sizes = Mapping[str, tuple[str, str]]
"""Field of a config -> what it is called in GGUF metadata and in config.json."""

GGUF, HF = 0, 1
"""Columns of `Sizes`."""

N_MAX = (1 << 31) - 1
N_LAYER_MAX = 4096
"""No size in a config exceeds these; larger values are damage."""

N_MAX_OF = {"head_dim": 1 << 16, "ssm_state": 1 << 10}
"""Tighter bounds of fields that size more than the tensors they are checked against: a DeltaNet
state is the square of its head's size, and a model may have no layer that uses `head_dim`."""

MAX_STATE_BYTES = 1 << 30
"""Recurrent state of one sequence; five times that of Qwen3.5-397B."""

IGNORED_IN_CONFIG_JSON = frozenset(
    {
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "bos_token_id",
        "chunk_size_feed_forward",
        "dtype",
        "eos_token_id",
        "generation_config",
        "id2label",
        "initializer_range",
        "is_encoder_decoder",
        "label2id",
        "model_type",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "pad_token_id",
        "problem_type",
        "return_dict",
        "router_aux_loss_coef",
        "tie_word_embeddings",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "vocab_size",
    }
)
"""Keys of config.json that say nothing about how the model computes."""


def written_sizes(table: Sizes, cfg: object) -> dict[str, OutValue]:
    """The way back from `Keys.sizes`: what a GGUF says of the fields of a table."""
    return {names[GGUF]: int(getattr(cfg, field)) for field, names in table.items()}


class Keys:
    """The values of one file, under an optional prefix.

    values   key -> value, as the reader gave them
    source   file name for messages
    prefix   put before every key ("qwen35moe.")
    """

    def __init__(self, values: Mapping[str, object], source: str, prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix
        self._read: set[str] = set()
        self._sections: dict[str, Keys] = {}
        self.source = source

    def __contains__(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self._values.get(self._prefix + key) is not None

    def sizes(self, table: Sizes, column: int) -> dict[str, Any]:
        """Every field of a table of whole numbers, each at least 1."""
        return {
            field: self.integer(names[column], high=N_MAX_OF.get(field, N_MAX))
            for field, names in table.items()
        }

    def integer(
        self, key: str, *, low: int = 1, high: int = N_MAX, absent: int | None = None
    ) -> int:
        """A whole number in [low, high]."""
        value = self._get(key, absent)
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise self._refuse(key, value, "a whole number")
        if not low <= int(value) <= high:
            raise self._refuse(key, value, f"{low} to {high}")
        return int(value)

    def number(self, key: str, *, above: int = 0, absent: float | None = None) -> float:
        """A finite number above `above`."""
        value = self._get(key, absent)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._refuse(key, value, "a number")
        if not above < value <= sys.float_info.max:
            raise self._refuse(key, value, f"a finite number above {above}")
        return float(value)

    def integers(self, key: str, *, absent: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of whole numbers, none negative."""
        value = self._get(key, absent)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        whole = isinstance(value, list | tuple) and all(
            isinstance(v, int) and v >= 0 for v in value
        )
        if not whole:
            raise self._refuse(key, value, "a list of whole numbers")
        assert isinstance(value, list | tuple), "checked above"
        return tuple(int(v) for v in value)

    def names(self, key: str, allowed: Iterable[str]) -> tuple[str, ...]:
        """A list of names, each one of `allowed`."""
        value = self._get(key, None)
        allowed = tuple(allowed)
        if not isinstance(value, list):
            raise self._refuse(key, value, "a list of names")
        for i, name in enumerate(value):
            if name not in allowed:
                raise self._refuse(f"{key}[{i}]", name, " or ".join(map(repr, allowed)))
        return tuple(value)

    def choice(self, key: str, *allowed: str, absent: str) -> str:
        """One of the `allowed` names; `absent` when the key is not there."""
        self.expect(key, *allowed)
        return str(self._get(key, absent))

    def flag(self, key: str, *, absent: bool | None = None) -> bool:
        """True or false."""
        value = self._get(key, absent)
        if not isinstance(value, bool):
            raise self._refuse(key, value, "true or false")
        return value

    def expect(self, key: str, *allowed: object) -> None:
        """Refuse a value that is there and is none of `allowed`: it asks for what we lack."""
        if key in self:
            value = self._get(key, None)
            if isinstance(value, np.ndarray) or value not in allowed:
                raise self._refuse(key, value, " or ".join(map(repr, allowed)) or "none")

    def section(self, key: str) -> "Keys":
        """The nested object under `key`."""
        value = self._get(key, None)
        if not isinstance(value, dict):
            raise self._refuse(key, value, "an object")
        if key not in self._sections:
            self._sections[key] = Keys(value, f"{self.source}: {key}")
        return self._sections[key]

    def unread(self, ignored: Iterable[str] = ()) -> list[str]:
        """Keys under the prefix, not null, that nobody asked for and that are not `ignored`.

        Those of a section that was read count too, as "section.key".
        """
        there = {
            key.removeprefix(self._prefix)
            for key, value in self._values.items()
            if key.startswith(self._prefix) and value is not None
        }
        ignored = set(ignored)
        nested = [
            f"{name}.{key}" for name, part in self._sections.items() for key in part.unread(ignored)
        ]
        return sorted([*(there - self._read - ignored), *nested])

    def layer_types(self, n_layer: int, kinds: Iterable[str]) -> tuple[str, ...]:
        """The kind of each layer, each one of `kinds`."""
        types = self.names("layer_types", kinds)
        if len(types) != n_layer:
            raise self.refuse(f"layer_types has {len(types)} entries for {n_layer} layers")
        return types

    def check_ratio(self, name: str, many: int, few: int) -> None:
        """Refuse two sizes of which one must be a multiple of the other."""
        if many % few:
            raise self.refuse(f"{name} is {many} / {few}, expected a whole number")

    def check_even(self, name: str, size: int) -> None:
        """Refuse an odd size."""
        if size % 2:
            raise self.refuse(f"{name} is {size}, expected an even number")

    def check_experts(self, n_used: int, n_expert: int) -> None:
        """Refuse a router that wants more experts than there are."""
        if n_used > n_expert:
            raise self.refuse(f"{n_used} experts used, expected at most {n_expert}")

    def check_state(self, n_layer: int, n_head: int, head_dim: int) -> None:
        """Refuse float32 states [n_layer, n_head, head_dim, head_dim] too large to allocate."""
        n_bytes = 4 * n_layer * n_head * head_dim**2
        if n_bytes > MAX_STATE_BYTES:
            raise self.refuse(
                f"{n_layer} layers of {n_head} heads of {head_dim} x {head_dim} make a state of "
                f"{n_bytes:,} bytes a sequence, expected at most {MAX_STATE_BYTES:,}"
            )

    def refuse(self, reason: str) -> ModelError:
        """An error about several keys at once."""
        return ModelError(f"{self.source}: {reason}")

    def _get(self, key: str, absent: object) -> object:
        self._read.add(key)
        value = self._values.get(self._prefix + key)
        if value is None:
            if absent is None:
                raise ModelError(f"{self.source}: key '{self._prefix}{key}' is missing")
            return absent
        return value

    def _refuse(self, key: str, value: object, expected: str) -> ModelError:
        shown = " ".join(repr(value).split())  # an array shows itself on several lines
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        return ModelError(f"{self.source}: '{self._prefix}{key}' is {shown}, expected {expected}")
