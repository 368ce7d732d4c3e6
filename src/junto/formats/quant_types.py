"""How many bytes each tensor type takes, and the array types that decoded tensors have.

The table covers every type that GGUF numbers and the plain types that safetensors adds. A type may
be listed here long before `quants` can decode it, so that a reader can check sizes and pass it by.

Sizes are those of ggml's block structs (source: ggml-common.h). GGML_QUANT_SIZES of gguf-py says
the same, but for Q8_1, where it has kept the 40 bytes of a struct that ggml made smaller in 2023.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from junto.errors import FormatError

U8: TypeAlias = npt.NDArray[np.uint8]
F32: TypeAlias = npt.NDArray[np.float32]

NOT_IN_GGUF = -1


@dataclass(frozen=True, slots=True)
class QuantType:
    """A way to store values: `n_per_block` of them in `n_bytes_per_block` bytes.

    `ggml_id` is the number GGUF files use, or NOT_IN_GGUF.
    """

    name: str
    ggml_id: int
    n_per_block: int
    n_bytes_per_block: int

    def n_bytes_row(self, n: int) -> int:
        """Return the bytes of a row of `n` values; FormatError if it would end inside a block."""
        if n % self.n_per_block:
            raise FormatError(
                f"{self.name}: a row of {n} values is not a multiple of its block "
                f"of {self.n_per_block}"
            )
        return n // self.n_per_block * self.n_bytes_per_block


_ALL = (
    QuantType("F32", 0, 1, 4),
    QuantType("F16", 1, 1, 2),
    QuantType("Q4_0", 2, 32, 18),
    QuantType("Q4_1", 3, 32, 20),
    QuantType("Q5_0", 6, 32, 22),
    QuantType("Q5_1", 7, 32, 24),
    QuantType("Q8_0", 8, 32, 34),
    QuantType("Q8_1", 9, 32, 36),
    QuantType("Q2_K", 10, 256, 84),
    QuantType("Q3_K", 11, 256, 110),
    QuantType("Q4_K", 12, 256, 144),
    QuantType("Q5_K", 13, 256, 176),
    QuantType("Q6_K", 14, 256, 210),
    QuantType("Q8_K", 15, 256, 292),
    QuantType("IQ2_XXS", 16, 256, 66),
    QuantType("IQ2_XS", 17, 256, 74),
    QuantType("IQ3_XXS", 18, 256, 98),
    QuantType("IQ1_S", 19, 256, 50),
    QuantType("IQ4_NL", 20, 32, 18),
    QuantType("IQ3_S", 21, 256, 110),
    QuantType("IQ2_S", 22, 256, 82),
    QuantType("IQ4_XS", 23, 256, 136),
    QuantType("I8", 24, 1, 1),
    QuantType("I16", 25, 1, 2),
    QuantType("I32", 26, 1, 4),
    QuantType("I64", 27, 1, 8),
    QuantType("F64", 28, 1, 8),
    QuantType("IQ1_M", 29, 256, 56),
    QuantType("BF16", 30, 1, 2),
    QuantType("TQ1_0", 34, 256, 54),
    QuantType("TQ2_0", 35, 256, 66),
    QuantType("MXFP4", 39, 32, 17),
    QuantType("NVFP4", 40, 64, 36),
    QuantType("Q1_0", 41, 128, 18),
    QuantType("Q2_0", 42, 64, 18),
    QuantType("MXFP4_PAIRS", NOT_IN_GGUF, 32, 17),
    QuantType("U8", NOT_IN_GGUF, 1, 1),
    QuantType("BOOL", NOT_IN_GGUF, 1, 1),
    QuantType("U16", NOT_IN_GGUF, 1, 2),
    QuantType("U32", NOT_IN_GGUF, 1, 4),
    QuantType("U64", NOT_IN_GGUF, 1, 8),
    QuantType("F8_E4M3", NOT_IN_GGUF, 1, 1),
    QuantType("F8_E5M2", NOT_IN_GGUF, 1, 1),
    QuantType("F8_E8M0", NOT_IN_GGUF, 1, 1),
)

TYPES: Mapping[str, QuantType] = MappingProxyType({kind.name: kind for kind in _ALL})
TYPES_BY_ID: Mapping[int, QuantType] = MappingProxyType(
    {kind.ggml_id: kind for kind in _ALL if kind.ggml_id != NOT_IN_GGUF}
)
"""GGUF number to type; the gaps are types that ggml removed (4, 5, 31-33, 36-38)."""

_OLLAMA_MXFP4, _OLLAMA_ARCHITECTURE = 4, "gptoss"


def type_of_id(ggml_id: int, architecture: object) -> QuantType | None:
    """Return the type that a number stands for in files of an architecture; None if there is none.

    Ollama's own gpt-oss files, and only they, use the number of the removed Q4_2 for MXFP4 with the
    values of a block in the publisher's order. Source: ml/backend/ggml/ggml.go of Ollama.
    """
    if ggml_id == _OLLAMA_MXFP4 and architecture == _OLLAMA_ARCHITECTURE:
        return TYPES["MXFP4_PAIRS"]
    return TYPES_BY_ID.get(ggml_id)
