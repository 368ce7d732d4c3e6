"""Bytes of a stored tensor to float32, type by type, in plain NumPy.

Each decoder is a function from blocks to values and one line of `DECODERS`; nothing here knows of
files, names or shapes. Results equal gguf-py's bit for bit, NaN and infinity included, so the order
of the float32 operations is part of the contract.

Block layouts below are written as byte ranges. Source: ggml-quants.c, gguf-py's quants.py.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from junto.errors import FormatError
from junto.formats.quant_types import F32, TYPES, TYPES_BY_ID, U8, QuantType

__all__ = ["DECODERS", "TYPES", "TYPES_BY_ID", "QuantType", "dequantize"]

Decoder: TypeAlias = Callable[[U8], npt.NDArray[Any]]
"""U8 [n_block, n_bytes_per_block] -> numbers [n_block, n_per_block]."""

# Bounds the temporaries of a decoder to a few MB however large the tensor is.
_SLAB_VALUES = 1 << 19

# Twice the E2M1 values, so that they are integers; the block scale is halved in return.
_E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


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
    if type.name == "F32" and data.ctypes.data % 4 == 0:
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


def _plain(dtype: str, blocks: U8) -> npt.NDArray[Any]:
    return blocks.view(dtype)


def _bool(blocks: U8) -> npt.NDArray[Any]:
    return blocks.astype(np.bool_)


def _bf16(blocks: U8) -> npt.NDArray[Any]:
    return (blocks.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _f16_at(blocks: U8, start: int) -> F32:
    """Return the float16 at byte `start` of each block as float32 [n_block, 1]."""
    return blocks[:, start : start + 2].view("<f2").astype(np.float32)


def _nibbles(bytes_: U8) -> U8:
    """Split the last axis into low nibbles, then high nibbles: [..., n] -> [..., 2, n]."""
    return np.stack([bytes_ & np.uint8(15), bytes_ >> np.uint8(4)], axis=-2)


def _q8_0(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:34 values q (i8); d * q."""
    return blocks[:, 2:].view(np.int8).astype(np.float32) * _f16_at(blocks, 0)


def _q4_0(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:18 nibbles q, the low ones first; d * (q - 8)."""
    q = _nibbles(blocks[:, 2:]).reshape(-1, 32).astype(np.float32)
    return _f16_at(blocks, 0) * (q - np.float32(8))


def _q4_1(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:4 minimum m (f16), 4:20 nibbles q, low ones first; d * q + m."""
    q = _nibbles(blocks[:, 4:]).reshape(-1, 32).astype(np.float32)
    return _f16_at(blocks, 0) * q + _f16_at(blocks, 2)


def _q4_k(blocks: U8) -> F32:
    """Bytes 0:2 d (f16), 2:4 dmin (f16), 4:16 eight 6-bit scales s and minima m, 16:144 nibbles q.

    Sub-block j of 32 values: (d * s[j]) * q - dmin * m[j]. Each 32 bytes hold sub-block 2i in their
    low nibbles and 2i + 1 in their high ones.
    """
    scale, minimum = _k_scales(blocks[:, 4:16])  # [n_block, 8]
    d = (_f16_at(blocks, 0) * scale)[:, :, None]
    dm = (_f16_at(blocks, 2) * minimum)[:, :, None]
    q = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32).astype(np.float32)
    return (d * q - dm).reshape(-1, 256)


def _k_scales(packed: U8) -> tuple[F32, F32]:
    """Unpack eight 6-bit scales and eight 6-bit minima from 12 bytes.

    Bytes 0-3 hold scales 0-3, bytes 4-7 minima 0-3, in their low six bits. Bytes 8-11 hold the low
    nibbles of scale and minimum 4-7; their top two bits are the top bits of the bytes before.
    """
    low_scale, low_min, nibbles = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    high_scale = (nibbles & np.uint8(15)) | ((low_scale >> np.uint8(2)) & np.uint8(0x30))
    high_min = (nibbles >> np.uint8(4)) | ((low_min >> np.uint8(2)) & np.uint8(0x30))
    scale = np.concatenate([low_scale & np.uint8(63), high_scale], axis=1)
    minimum = np.concatenate([low_min & np.uint8(63), high_min], axis=1)
    return scale.astype(np.float32), minimum.astype(np.float32)


def _q6_k(blocks: U8) -> F32:
    """Bytes 0:128 nibbles, 128:192 bit pairs above them, 192:208 sixteen scales s (i8), 208:210 d.

    Sub-block j of 16 values: (d * s[j]) * (q - 32). Each half of 128 values takes 64 bytes of
    nibbles (low ones first) and 32 bytes of bit pairs (lowest pair first).
    """
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    pairs = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([[0], [2], [4], [6]], np.uint8)
    q = low | ((pairs & np.uint8(3)) << np.uint8(4))
    d = _f16_at(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    centred = q.reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    return (d[:, :, None] * centred).reshape(-1, 256)


def _mxfp4(blocks: U8) -> F32:
    """Byte 0 scale exponent (E8M0), 1:17 E2M1 nibbles, the low ones first; 2**(e - 127) * value.

    Exponent 255 is NaN in the OCP specification; ggml reads it as 2**128, and so does this.
    """
    q = _E2M1_DOUBLED[_nibbles(blocks[:, 1:])].reshape(-1, 32)
    return _half_e8m0(blocks[:, :1]) * q


def _half_e8m0(exponent: U8) -> F32:
    """Return 2**(exponent - 128), the block scale over two; the two smallest are subnormal."""
    e = exponent.astype(np.uint32)
    subnormal = np.uint32(0x00200000) << np.minimum(e, np.uint32(1))
    normal = (np.maximum(e, np.uint32(1)) - np.uint32(1)) << np.uint32(23)
    return np.where(e < 2, subnormal, normal).view(np.float32)


DECODERS: Mapping[str, Decoder] = MappingProxyType(
    {
        "F64": partial(_plain, "<f8"),
        "F32": partial(_plain, "<f4"),
        "F16": partial(_plain, "<f2"),
        "BF16": _bf16,
        "I64": partial(_plain, "<i8"),
        "I32": partial(_plain, "<i4"),
        "I16": partial(_plain, "<i2"),
        "I8": partial(_plain, "<i1"),
        "U8": partial(_plain, "<u1"),
        "BOOL": _bool,
        "Q8_0": _q8_0,
        "Q4_0": _q4_0,
        "Q4_1": _q4_1,
        "Q4_K": _q4_k,
        "Q6_K": _q6_k,
        "MXFP4": _mxfp4,
    }
)
