"""Blocks of 256 values that are -1, 0 or 1 times one scale: TQ1_0 and TQ2_0."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from junto.formats.quant_fields import Decoder, bit_pairs, f16_at
from junto.formats.quant_types import F32, U8

_POWERS = np.array([[1], [3], [9], [27], [81]], np.uint8)


def _tq1_0(blocks: U8) -> F32:
    """Bytes 0:32, 32:48 five digits of base 3 each, 48:52 four digits, 52:54 scale d (f16).

    A byte is its digits as a fraction of 243 in 256ths: times 3**i modulo 256, digit i is the
    integer part of three times that. A run of n bytes holds the first digits of all, then the
    second ones. Value: d * (digit - 1).
    """
    digits = np.concatenate(
        [_digits(blocks[:, 0:32], 5), _digits(blocks[:, 32:48], 5), _digits(blocks[:, 48:52], 4)],
        axis=1,
    )
    return f16_at(blocks, 52) * (digits.astype(np.float32) - np.float32(1))


def _digits(bytes_: U8, n_digit: int) -> U8:
    shifted = bytes_[:, None, :] * _POWERS[:n_digit]  # [n_block, n_digit, n], modulo 256
    digit = (shifted.astype(np.uint16) * np.uint16(3)) >> np.uint16(8)
    return digit.astype(np.uint8).reshape(len(bytes_), -1)


def _tq2_0(blocks: U8) -> F32:
    """Bytes 0:64 bit pairs q, 64:66 scale d (f16); d * (q - 1). Pairs lie as in Q2_K."""
    q = bit_pairs(blocks[:, :64].reshape(-1, 2, 32)).reshape(-1, 256).astype(np.float32)
    return f16_at(blocks, 64) * (q - np.float32(1))


TERNARY: Mapping[str, Decoder] = MappingProxyType({"TQ1_0": _tq1_0, "TQ2_0": _tq2_0})
