"""The codebooks of the i-quants: points of a lattice, several values an entry.

They are data of the format, not something that can be computed. quant_grids.bin holds them one
after the other, a little-endian uint16 an entry, value 0 in the lowest bits: eight codes of two
bits, or four of four. The C++ kernels are compiled from the same file.
Source: ggml-common.h of ggml (MIT licence, see NOTICE).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np

from junto.formats.quant_types import F32

_FILE = Path(__file__).with_name("quant_grids.bin")


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where a grid lies in the file, and what its codes stand for."""

    first: int
    n_entry: int
    n_value: int  # of an entry
    values: tuple[int, ...]  # of the codes


_TWO = (8, 25, 43)
GRIDS: Mapping[str, _Grid] = MappingProxyType(
    {
        "IQ2_XXS": _Grid(0, 256, 8, _TWO),
        "IQ2_XS": _Grid(256, 512, 8, _TWO),
        "IQ2_S": _Grid(768, 1024, 8, _TWO),
        "IQ3_XXS": _Grid(1792, 256, 4, (4, 12, 20, 28, 36, 44, 52, 62)),
        "IQ3_S": _Grid(2048, 512, 4, (1, 3, 5, 7, 9, 11, 13, 15)),
        "IQ1_S": _Grid(2560, 2048, 8, (-1, 0, 1)),
    }
)


@cache
def grid(name: str) -> F32:
    """Return the values of every entry, F32 [n_entry, n_value]; IQ1_M has the grid of IQ1_S."""
    where = GRIDS[name]
    entries = np.fromfile(_FILE, "<u2", where.n_entry, offset=2 * where.first)
    n_bit = 16 // where.n_value
    shifts = np.arange(where.n_value, dtype=np.uint16) * np.uint16(n_bit)
    codes = (entries[:, None] >> shifts) & np.uint16((1 << n_bit) - 1)
    table: F32 = np.array(where.values, np.float32)[codes]
    table.flags.writeable = False
    return table


@cache
def signs() -> F32:
    """Return eight factors of 1 or -1 for every byte, the lowest bit first, F32 [256, 8]."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    table: F32 = np.float32(1) - np.float32(2) * bits.astype(np.float32)
    table.flags.writeable = False
    return table


@cache
def even_signs() -> F32:
    """Return the factors of seven bits and an eighth that makes their number even, F32 [128, 8]."""
    seven = np.arange(128, dtype=np.uint8)
    table = signs()[seven | ((np.bitwise_count(seven) & np.uint8(1)) << np.uint8(7))]
    table.flags.writeable = False
    return table
