"""K-quants: blocks of 256 values whose sub-blocks of 16 or 32 have small scales and minima."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from junto.formats.quant_fields import Decoder, bit_pairs, bit_planes, f16_at, nibbles
from junto.formats.quant_types import F32, U8


def _q2_k(blocks: U8) -> F32:
    """Bytes 0:16 scales s (low nibble) and minima m (high), 16:80 bit pairs q, 80:82 d, 82:84 dmin.

    Sub-block j of 16 values: (d * s[j]) * q - dmin * m[j]. Each half of 128 values takes 32 bytes,
    lowest pairs first.
    """
    s, m = nibbles(blocks[:, :16]).astype(np.float32).swapaxes(0, 1)  # [n_block, 16] each
    d = (f16_at(blocks, 80) * s)[:, :, None]
    dm = (f16_at(blocks, 82) * m)[:, :, None]
    q = bit_pairs(blocks[:, 16:80].reshape(-1, 2, 32)).reshape(-1, 16, 16).astype(np.float32)
    out: F32 = d * q - dm
    return out.reshape(-1, 256)


def _q3_k(blocks: U8) -> F32:
    """Bytes 0:32 third bits, 32:96 bit pairs, 96:108 sixteen 6-bit scales s, 108:110 d (f16).

    Sub-block j of 16 values: (d * (s[j] - 32)) * (q - 4). Pairs lie as in Q2_K; bit i of the 32
    bytes of third bits belongs to values 32i to 32i + 31.
    """
    d = f16_at(blocks, 108) * _q3_scales(blocks[:, 96:108])
    pairs = bit_pairs(blocks[:, 32:96].reshape(-1, 2, 32)).reshape(-1, 16, 16)
    q = pairs | (bit_planes(blocks[:, :32]).reshape(-1, 16, 16) << np.uint8(2))
    return (d[:, :, None] * (q.astype(np.float32) - np.float32(4))).reshape(-1, 256)


def _q3_scales(packed: U8) -> F32:
    """Unpack sixteen 6-bit scales less 32 from 12 bytes: eight of nibbles, four of bit pairs."""
    low = nibbles(packed[:, :8]).reshape(-1, 16)
    scale = low | (bit_pairs(packed[:, 8:]).reshape(-1, 16) << np.uint8(4))
    return scale.astype(np.float32) - np.float32(32)


def _q4_k(blocks: U8) -> F32:
    """Bytes 0:2 d (f16), 2:4 dmin (f16), 4:16 eight 6-bit scales s and minima m, 16:144 nibbles q.

    Sub-block j of 32 values: (d * s[j]) * q - dmin * m[j]. Each 32 bytes hold sub-block 2i in their
    low nibbles and 2i + 1 in their high ones.
    """
    return _scaled_less_minimum(blocks, nibbles(blocks[:, 16:].reshape(-1, 4, 32)))


def _q5_k(blocks: U8) -> F32:
    """As Q4_K, with 16:48 fifth bits before the nibbles 48:176; bit j is that of sub-block j."""
    low = nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return _scaled_less_minimum(blocks, low | (bit_planes(blocks[:, 16:48]) << np.uint8(4)))


def _scaled_less_minimum(blocks: U8, q: U8) -> F32:
    scale, minimum = _k_scales(blocks[:, 4:16])  # [n_block, 8]
    d = (f16_at(blocks, 0) * scale)[:, :, None]
    dm = (f16_at(blocks, 2) * minimum)[:, :, None]
    return (d * q.reshape(-1, 8, 32).astype(np.float32) - dm).reshape(-1, 256)


def _k_scales(packed: U8) -> tuple[F32, F32]:
    """Unpack eight 6-bit scales and eight 6-bit minima from 12 bytes.

    Bytes 0-3 hold scales 0-3, bytes 4-7 minima 0-3, in their low six bits. Bytes 8-11 hold the low
    nibbles of scale and minimum 4-7; their top two bits are the top bits of the bytes before.
    """
    low_scale, low_min, mixed = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    high_scale = (mixed & np.uint8(15)) | ((low_scale >> np.uint8(2)) & np.uint8(0x30))
    high_min = (mixed >> np.uint8(4)) | ((low_min >> np.uint8(2)) & np.uint8(0x30))
    scale = np.concatenate([low_scale & np.uint8(63), high_scale], axis=1)
    minimum = np.concatenate([low_min & np.uint8(63), high_min], axis=1)
    return scale.astype(np.float32), minimum.astype(np.float32)


def _q6_k(blocks: U8) -> F32:
    """Bytes 0:128 nibbles, 128:192 bit pairs above them, 192:208 sixteen scales s (i8), 208:210 d.

    Sub-block j of 16 values: (d * s[j]) * (q - 32). Each half of 128 values takes 64 bytes of
    nibbles (low ones first) and 32 bytes of bit pairs (lowest pair first).
    """
    low = nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    q = low | (bit_pairs(blocks[:, 128:192].reshape(-1, 2, 32)) << np.uint8(4))
    d = f16_at(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    centred = q.reshape(-1, 16, 16).astype(np.float32) - np.float32(32)
    return (d[:, :, None] * centred).reshape(-1, 256)


def _q8_k(blocks: U8) -> F32:
    """Bytes 0:4 scale d (f32), 4:260 values q (i8), 260:292 sums of 16 q (redundant); d * q."""
    return blocks[:, :4].view("<f4") * blocks[:, 4:260].view(np.int8).astype(np.float32)


K_QUANTS: Mapping[str, Decoder] = MappingProxyType(
    {
        "Q2_K": _q2_k,
        "Q3_K": _q3_k,
        "Q4_K": _q4_k,
        "Q5_K": _q5_k,
        "Q6_K": _q6_k,
        "Q8_K": _q8_k,
    }
)
