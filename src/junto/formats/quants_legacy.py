"""Blocks with one scale, and perhaps one minimum, of their own: Q4_0 to Q8_1, Q1_0, Q2_0."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from junto.formats.quant_fields import Decoder, bit_pairs, bit_run, f16_at, nibbles
from junto.formats.quant_types import F32, U8


def _q8_0(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:34 values q (i8); d * q."""
    return blocks[:, 2:].view(np.int8).astype(np.float32) * f16_at(blocks, 0)


def _q8_1(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:4 d * sum of q (f16, redundant), 4:36 values q (i8); d * q."""
    return blocks[:, 4:].view(np.int8).astype(np.float32) * f16_at(blocks, 0)


def _q4_0(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:18 nibbles q, the low ones first; d * (q - 8)."""
    q = nibbles(blocks[:, 2:]).reshape(-1, 32).astype(np.float32)
    return f16_at(blocks, 0) * (q - np.float32(8))


def _q4_1(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:4 minimum m (f16), 4:20 nibbles q, low ones first; d * q + m."""
    q = nibbles(blocks[:, 4:]).reshape(-1, 32).astype(np.float32)
    return f16_at(blocks, 0) * q + f16_at(blocks, 2)


def _q5_0(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:6 a fifth bit each, 6:22 nibbles, low ones first; d * (q - 16)."""
    return f16_at(blocks, 0) * (_five_bits(blocks[:, 2:]).astype(np.float32) - np.float32(16))


def _q5_1(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:4 minimum m (f16), 4:8 fifth bits, 8:24 nibbles; d * q + m."""
    return f16_at(blocks, 0) * _five_bits(blocks[:, 4:]).astype(np.float32) + f16_at(blocks, 2)


def _five_bits(bytes_: U8) -> U8:
    """Four bytes of fifth bits, then sixteen of nibbles -> [n_block, 32] in 0..31."""
    low = nibbles(bytes_[:, 4:]).reshape(-1, 32)
    return low | (bit_run(bytes_[:, :4]) << np.uint8(4))


def _q1_0(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:18 a bit each, lowest first; d where it is set, else -d."""
    sign = bit_run(blocks[:, 2:]).astype(np.float32) * np.float32(2) - np.float32(1)
    return f16_at(blocks, 0) * sign


def _q2_0(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:18 bit pairs q, four a byte, lowest first; d * (q - 1)."""
    q = bit_pairs(blocks[:, 2:]).swapaxes(1, 2).reshape(-1, 64).astype(np.float32)
    return f16_at(blocks, 0) * (q - np.float32(1))


LEGACY: Mapping[str, Decoder] = MappingProxyType(
    {
        "Q8_0": _q8_0,
        "Q8_1": _q8_1,
        "Q4_0": _q4_0,
        "Q4_1": _q4_1,
        "Q5_0": _q5_0,
        "Q5_1": _q5_1,
        "Q1_0": _q1_0,
        "Q2_0": _q2_0,
    }
)
