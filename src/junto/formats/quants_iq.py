"""I-quants: values from a codebook, times a sign, times a scale; and IQ4, from a table of 16.

All but IQ4_NL have blocks of 256 values. Entries of a grid cover 8 values (IQ1, IQ2) or 4 (IQ3).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from junto.formats.quant_fields import Decoder, bit_pairs, bit_run, f16_at, nibbles, words
from junto.formats.quant_grids import even_signs, grid, signs
from junto.formats.quant_types import F32, U8

Entries = npt.NDArray[np.integer[Any]]

_IQ4 = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)
_HALF, _QUARTER, _EIGHTH = np.float32(0.5), np.float32(0.25), np.float32(0.125)
_SEVEN_BITS = np.array([0, 7, 14, 21], np.uint32)
_THREE_BITS = np.array([0, 3, 6, 9], np.uint16)


def _scaled(scale: F32, values: F32) -> F32:
    """Multiply the values of whole blocks by a scale for each run of them [n_block, n_run]."""
    return (scale[:, :, None] * values.reshape(*scale.shape, -1)).reshape(-1, 256)


def _in_order(halves: U8) -> U8:
    """Nibbles of [n_block, n] bytes in order, low before high: [n_block, 2 * n]."""
    return nibbles(halves).swapaxes(1, 2).reshape(len(halves), -1)


def _pairs_in_order(bytes_: U8) -> U8:
    """Bit pairs of [n_block, n] bytes in order, lowest first: [n_block, 4 * n]."""
    return bit_pairs(bytes_).swapaxes(1, 2).reshape(len(bytes_), -1)


def _signs_and_scale(word: npt.NDArray[np.uint32]) -> tuple[F32, F32]:
    """Four sets of seven sign bits and a scale of four bits in each 32-bit word.

    word [n_block, 8] -> signs [n_block, 32, 8], scale + 1/2 [n_block, 8]
    """
    sets = (word[:, :, None] >> _SEVEN_BITS) & np.uint32(127)
    scale = _HALF + (word >> np.uint32(28)).astype(np.float32)
    return even_signs()[sets.reshape(len(word), 32)], scale


def _iq2_xxs(blocks: U8) -> F32:
    """Bytes 0:2 d (f16), then for each 32 values four entries (u8) and a word of signs and scale.

    d * (scale + 1/2) / 4 * entry * sign.
    """
    parts = words(blocks[:, 2:], "<u4").reshape(-1, 8, 2)
    sign, scale = _signs_and_scale(parts[:, :, 1])
    entries = words(parts[:, :, 0], "u1")  # [n_block, 32]
    return _scaled(f16_at(blocks, 0) * scale * _QUARTER, grid("IQ2_XXS")[entries] * sign)


def _iq2_xs(blocks: U8) -> F32:
    """Bytes 0:2 d (f16), 2:66 entries (9 bits) under seven sign bits (u16), 66:74 scales.

    A scale (a nibble) covers 16 values: d * (scale + 1/2) / 4 * entry * sign.
    """
    codes = words(blocks[:, 2:66], "<u2")  # [n_block, 32]
    values = grid("IQ2_XS")[codes & np.uint16(511)] * even_signs()[codes >> np.uint16(9)]
    return _scaled(_iq2_scale(blocks, 66), values)


def _iq2_s(blocks: U8) -> F32:
    """Bytes 0:2 d (f16), 2:34 entries, 34:66 signs, 66:74 bit pairs above entries, 74:82 scales.

    A scale (a nibble) covers 16 values: d * (scale + 1/2) / 4 * entry * sign.
    """
    high = _pairs_in_order(blocks[:, 66:74]).astype(np.uint16)
    entries = blocks[:, 2:34] | (high << np.uint16(8))  # [n_block, 32]
    return _scaled(_iq2_scale(blocks, 74), grid("IQ2_S")[entries] * signs()[blocks[:, 34:66]])


def _iq2_scale(blocks: U8, start: int) -> F32:
    nibble = _in_order(blocks[:, start : start + 8]).astype(np.float32)
    return f16_at(blocks, 0) * (_HALF + nibble) * _QUARTER  # [n_block, 16]


def _iq3_xxs(blocks: U8) -> F32:
    """Bytes 0:2 d (f16), 2:66 entries of four values, 66:98 words of signs and scale for 32.

    d * (scale + 1/2) / 2 * entry * sign.
    """
    sign, scale = _signs_and_scale(words(blocks[:, 66:], "<u4"))
    values = grid("IQ3_XXS")[blocks[:, 2:66]].reshape(sign.shape)
    return _scaled(f16_at(blocks, 0) * scale * _HALF, values * sign)


def _iq3_s(blocks: U8) -> F32:
    """Bytes 0:2 d, 2:66 entries of four, 66:74 a ninth bit each, 74:106 signs, 106:110 scales.

    A scale (a nibble) covers 32 values: d * (1 + 2 * scale) * entry * sign.
    """
    high = bit_run(blocks[:, 66:74]).astype(np.uint16)
    entries = blocks[:, 2:66] | (high << np.uint16(8))  # [n_block, 64]
    scale = f16_at(blocks, 0) * (1 + 2 * _in_order(blocks[:, 106:110])).astype(np.float32)
    values = grid("IQ3_S")[entries].reshape(-1, 32, 8)
    return _scaled(scale, values * signs()[blocks[:, 74:106]])


def _iq1_s(blocks: U8) -> F32:
    """Bytes 0:2 d (f16), 2:34 entries, 34:50 for each 32 values a word (u16).

    It has three bits above each of four entries, a scale of three bits and the sign of the shift:
    d * (2 * scale + 1) * (entry + shift), where the shift is 1/8 or -1/8.
    """
    word = words(blocks[:, 34:], "<u2")  # [n_block, 8]
    scale = f16_at(blocks, 0) * (2 * ((word >> 12) & 7) + 1).astype(np.float32)
    shift = np.where(word >> 15, -_EIGHTH, _EIGHTH)
    high = ((word[:, :, None] >> _THREE_BITS) & np.uint16(7)).reshape(-1, 32)
    values = grid("IQ1_S")[blocks[:, 2:34] | (high << np.uint16(8))].reshape(-1, 8, 32)
    return _scaled(scale, values + shift[:, :, None])


def _iq1_m(blocks: U8) -> F32:
    """Bytes 0:32 entries, 32:48 a nibble each, 48:56 four words (u16) of scales.

    A nibble has three bits above its entry and the sign of the shift. A word has four scales of
    three bits, one for 16 values, and a quarter of d (f16) on top, the lowest first:
    d * (2 * scale + 1) * (entry + shift), where the shift is 1/8 or -1/8.
    """
    word = words(blocks[:, 48:], "<u2")  # [n_block, 4]
    quarters = (word >> np.uint16(12)) << np.array([0, 4, 8, 12], np.uint16)
    d = np.bitwise_or.reduce(quarters, axis=1, keepdims=True).view("<f2").astype(np.float32)
    steps = ((word[:, :, None] >> _THREE_BITS) & np.uint16(7)).reshape(-1, 16)
    nibble = _in_order(blocks[:, 32:48]).astype(np.uint16)
    entries: Entries = blocks[:, 0:32] | ((nibble & np.uint16(7)) << np.uint16(8))
    shift = np.where(nibble & np.uint16(8), -_EIGHTH, _EIGHTH)
    values = grid("IQ1_S")[entries] + shift[:, :, None]
    return _scaled(d * (2 * steps + 1).astype(np.float32), values)


def _iq4_nl(blocks: U8) -> F32:
    """Bytes 0:2 scale d (f16), 2:18 nibbles, the low ones first; d * table[q]."""
    return f16_at(blocks, 0) * _IQ4[nibbles(blocks[:, 2:])].reshape(-1, 32)


def _iq4_xs(blocks: U8) -> F32:
    """Bytes 0:2 d (f16), 2:4 a bit pair above each scale, 4:8 scales s, 8:136 nibbles.

    Sub-block j of 32 values takes 16 bytes, low nibbles first: (d * (s[j] - 32)) * table[q].
    """
    scale = _in_order(blocks[:, 4:8]) | (_pairs_in_order(blocks[:, 2:4]) << np.uint8(4))
    d = f16_at(blocks, 0) * (scale.astype(np.float32) - np.float32(32))
    return _scaled(d, _IQ4[nibbles(blocks[:, 8:].reshape(-1, 8, 16))])


I_QUANTS: Mapping[str, Decoder] = MappingProxyType(
    {
        "IQ1_S": _iq1_s,
        "IQ1_M": _iq1_m,
        "IQ2_XXS": _iq2_xxs,
        "IQ2_XS": _iq2_xs,
        "IQ2_S": _iq2_s,
        "IQ3_XXS": _iq3_xxs,
        "IQ3_S": _iq3_s,
        "IQ4_NL": _iq4_nl,
        "IQ4_XS": _iq4_xs,
    }
)
