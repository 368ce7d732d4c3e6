"""Bytes of a stored tensor to float32, type by type, in plain NumPy.

Each decoder is a function from blocks to values and one line of a table of its family, in the
modules quants_*; nothing here knows of files, names or shapes. Results equal gguf-py's bit for bit,
NaN and infinity included, so the order of the float32 operations is part of the contract.

Block layouts are written as byte ranges. Source: ggml-quants.c, gguf-py's quants.py.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from junto.errors import FormatError
from junto.formats.quant_fields import Decoder
from junto.formats.quant_types import F32, TYPES, TYPES_BY_ID, U8, QuantType
from junto.formats.quants_fp4 import FP4
from junto.formats.quants_iq import I_QUANTS
from junto.formats.quants_k import K_QUANTS
from junto.formats.quants_legacy import LEGACY
from junto.formats.quants_plain import PLAIN
from junto.formats.quants_ternary import TERNARY

__all__ = ["DECODERS", "TYPES", "TYPES_BY_ID", "QuantType", "dequantize"]

DECODERS: Mapping[str, Decoder] = MappingProxyType(
    {**PLAIN, **LEGACY, **K_QUANTS, **I_QUANTS, **FP4, **TERNARY}
)

# Bounds the temporaries of a decoder to a few MB however large the tensor is.
_SLAB_VALUES = 1 << 19


def dequantize(type: QuantType, data: U8) -> F32:
    """Decode stored rows to float32.

    data     U8 [..., n_bytes_row]
    returns  F32 [..., n]; for F32 itself a view of `data` if it is aligned, read-only if `data` is

    FormatError if the type has no decoder, or if the rows are not whole blocks.
    """
    decoder = DECODERS.get(type.name)
    if decoder is None:
        raise FormatError(
            f"type {type.name} cannot be decoded; decodable are {', '.join(DECODERS)}"
        )
    n_block_row, rest = divmod(data.shape[-1], type.n_bytes_per_block)
    if rest:
        raise FormatError(
            f"{type.name}: a row of {data.shape[-1]} bytes is not a multiple of its block "
            f"of {type.n_bytes_per_block} bytes"
        )
    data = np.ascontiguousarray(data)
    shape = (*data.shape[:-1], n_block_row * type.n_per_block)
    if type.name == "F32" and data.__array_interface__["data"][0] % 4 == 0:
        return data.view("<f4").reshape(shape)
    n_block = data.size // type.n_bytes_per_block
    blocks = data.reshape(n_block, type.n_bytes_per_block)
    return _decode_in_slabs(decoder, blocks, type.n_per_block).reshape(shape)


def _decode_in_slabs(decoder: Decoder, blocks: U8, n_per_block: int) -> F32:
    out = np.empty((len(blocks), n_per_block), np.float32)
    step = max(1, _SLAB_VALUES // n_per_block)
    # Any bits may stand in a file: infinity times zero is NaN, as in C, and no reason to warn.
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(blocks), step):
            out[start : start + step] = decoder(blocks[start : start + step])
    return out
