"""Which type each tensor of a written file gets.

A recipe names a type for matrices, and others where more bits pay; what is small or sensitive stays
as it is. It knows tensors by GGUF name and shape alone.

Source: llama.cpp's quantiser (src/llama-quant.cpp), whose choices people know by these names.
"""

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from junto.errors import FormatError, RequestError
from junto.formats.quant_types import TYPES, QuantType
from junto.quantize import QUANTIZED_TYPES

_FLOAT = ("F32", "F16", "BF16")
_NEAREST = {"Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
"""For rows that are no multiple of a K-quant's 256 values: the next type that loses no more."""

_KEPT = re.compile(
    r"norm|ffn_gate_inp|ssm_(?!out|in\.)|position_embd|token_types|rope_freqs|attn_sinks"
)
"""Matrices that stay as they are: routers, convolutions, gates of a few rows, tables."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Types by what a tensor is for.

    base       matrices
    head       the output matrix, or the embedding where the two are one
    more       half of the layers' ffn_down and attn_v, those that matter most
    experts    routed experts
    file_type  what `general.file_type` calls it
    """

    base: str
    file_type: int
    head: str = ""
    more: str = ""
    experts: str = ""


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "F32": Recipe("F32", 0),
        "F16": Recipe("F16", 1),
        "BF16": Recipe("BF16", 32),
        "Q8_0": Recipe("Q8_0", 7),
        "Q5_1": Recipe("Q5_1", 9, head="Q6_K"),
        "Q5_0": Recipe("Q5_0", 8, head="Q6_K"),
        "Q4_1": Recipe("Q4_1", 3, head="Q6_K"),
        "Q4_0": Recipe("Q4_0", 2, head="Q6_K"),
        "IQ4_NL": Recipe("IQ4_NL", 25, head="Q6_K"),
        "Q2_K": Recipe("Q2_K", 10, head="Q6_K"),
        "Q3_K": Recipe("Q3_K", 11, head="Q6_K"),
        "Q4_K": Recipe("Q4_K", 14, head="Q6_K"),
        "Q4_K_M": Recipe("Q4_K", 15, head="Q6_K", more="Q6_K"),
        "Q5_K": Recipe("Q5_K", 16, head="Q6_K"),
        "Q5_K_M": Recipe("Q5_K", 17, head="Q6_K", more="Q6_K"),
        "Q6_K": Recipe("Q6_K", 18),
        "MXFP4": Recipe("Q8_0", 38, experts="MXFP4"),
    }
)
"""What `--type` may be."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The type a tensor gets, and the one it was meant to have where its rows did not allow it."""

    type: QuantType
    meant: QuantType | None = None


class Types:
    """The choice for one file.

    name      of a recipe; None leaves every type as it is
    keep      (pattern, type) in the order given; of those that fit a name the last counts
    n_layer   layers of the file
    is_tied   whether the embedding is the output matrix too
    floats    whether vectors become float32, as GGUF readers want them
    """

    def __init__(
        self,
        name: str | None,
        keep: Sequence[tuple[str, str]],
        *,
        n_layer: int,
        is_tied: bool,
        floats: bool,
    ) -> None:
        self.recipe = None if name is None else _recipe(name)
        self._keep = [(pattern, _known(kind)) for pattern, kind in keep]
        self._n_layer, self._is_tied, self._floats = n_layer, is_tied, floats
        self._unused = {pattern for pattern, _ in keep}

    def of(self, name: str, shape: tuple[int, ...], now: QuantType) -> Choice:
        """Choose for a tensor whose type is `now`; RequestError where a pattern's cannot be."""
        now = TYPES["MXFP4"] if now.name == "MXFP4_PAIRS" else now  # Ollama's order of nibbles
        fitting = [(pattern, kind) for pattern, kind in self._keep if _fits(name, pattern)]
        self._unused -= {pattern for pattern, _ in fitting}
        if fitting:
            return Choice(_demanded(name, shape, fitting[-1][1]))
        if _stays(name, shape):
            return Choice(TYPES["F32"] if self._floats else now)
        if self.recipe is None:
            return Choice(now)
        wanted = TYPES[self._wanted(self.recipe, name)]
        if now.name == "MXFP4" and wanted.name not in _FLOAT:
            return Choice(now)
        return _possible(wanted, shape, now)

    def refuse_unused(self) -> None:
        """RequestError if a pattern has fitted no tensor."""
        if self._unused:
            raise RequestError(
                f"--keep {min(self._unused)!r}: no tensor has such a name; see junto inspect "
                "--tensors"
            )

    def _wanted(self, recipe: Recipe, name: str) -> str:
        head = "token_embd.weight" if self._is_tied else "output.weight"
        if name == head:
            return recipe.head or recipe.base
        if recipe.more and self._matters_more(name):
            return recipe.more
        if recipe.experts and "_exps." in name:
            return recipe.experts
        return recipe.base

    def _matters_more(self, name: str) -> bool:
        """The first and last eighth of the layers, and every third between."""
        layer = re.fullmatch(r"blk\.(\d+)\.(attn_v|ffn_down(_exps|_shexp)?)\.weight", name)
        if layer is None:
            return False
        i, eighth = int(layer[1]), self._n_layer // 8
        return i < eighth or i >= 7 * self._n_layer // 8 or (i - eighth) % 3 == 2


def _recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise RequestError(f"type {name!r} is unknown; types to convert to: {', '.join(RECIPES)}")
    return RECIPES[name]


def _known(name: str) -> QuantType:
    if name not in (*QUANTIZED_TYPES, "F32"):
        known = ", ".join(dict.fromkeys(("F32", *QUANTIZED_TYPES)))
        raise RequestError(f"--keep: type {name!r} is unknown; types to keep: {known}")
    return TYPES[name]


def _fits(name: str, pattern: str) -> bool:
    """Whether a pattern is a name's, or one of the parts between its dots."""
    return fnmatch.fnmatchcase(name, pattern) or pattern in name.split(".")


def _stays(name: str, shape: tuple[int, ...]) -> bool:
    return len(shape) < 2 or not name.endswith(".weight") or _KEPT.search(name) is not None


def _demanded(name: str, shape: tuple[int, ...], kind: QuantType) -> QuantType:
    try:
        kind.n_bytes_row(shape[-1] if shape else 1)
    except FormatError as error:
        raise RequestError(f"--keep: tensor {name!r}: {error}; keep another type") from None
    return kind


def _possible(wanted: QuantType, shape: tuple[int, ...], now: QuantType) -> Choice:
    """The wanted type, or the nearest that is no worse and whose blocks divide the rows."""
    plain = now if now.name in _FLOAT else TYPES["F16"]
    for kind in (wanted, TYPES[_NEAREST.get(wanted.name, wanted.name)]):
        if shape[-1] % kind.n_per_block == 0:
            return Choice(kind, None if kind is wanted else wanted)
    return Choice(plain, wanted)
