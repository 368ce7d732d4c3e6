"""Four-bit floats (E2M1) under a scale of eight bits: MXFP4 in both orders, NVFP4."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from junto.formats.quant_fields import Decoder, nibbles
from junto.formats.quant_types import F32, U8

# Twice the E2M1 values, so that they are integers; the block scale is halved in return.
_E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def _mxfp4(blocks: U8) -> F32:
    """Byte 0 scale exponent (E8M0), 1:17 E2M1 nibbles, the low ones first; 2**(e - 127) * value.

    Exponent 255 is NaN in the OCP specification; ggml reads it as 2**128, and so does this.
    """
    q = _E2M1_DOUBLED[nibbles(blocks[:, 1:])].reshape(-1, 32)
    return _half_e8m0(blocks[:, :1]) * q


def _mxfp4_pairs(blocks: U8) -> F32:
    """As MXFP4 in the publisher's order: byte i of the sixteen holds values 2i (low) and 2i + 1."""
    q = _E2M1_DOUBLED[nibbles(blocks[:, 1:]).swapaxes(1, 2)].reshape(-1, 32)
    return _half_e8m0(blocks[:, :1]) * q


def _half_e8m0(exponent: U8) -> F32:
    """Return 2**(exponent - 128), the block scale over two; the two smallest are subnormal."""
    e = exponent.astype(np.uint32)
    subnormal = np.uint32(0x00200000) << np.minimum(e, np.uint32(1))
    normal = (np.maximum(e, np.uint32(1)) - np.uint32(1)) << np.uint32(23)
    return np.where(e < 2, subnormal, normal).view(np.float32)


def _nvfp4(blocks: U8) -> F32:
    """Bytes 0:4 scales (E4M3, sign ignored) of 16 values each, 4:36 E2M1 nibbles, low ones first.

    Eight bytes of nibbles hold the 16 values of a scale.
    """
    q = _E2M1_DOUBLED[nibbles(blocks[:, 4:].reshape(-1, 4, 8))].reshape(-1, 4, 16)
    return (_HALF_E4M3[blocks[:, :4]][:, :, None] * q).reshape(-1, 64)


def _half_e4m3() -> F32:
    """Every E4M3 number without its sign, halved; 0x7F, which is NaN elsewhere, counts as 0."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    value = np.where(
        exponent == 0, np.ldexp(mantissa, -9), np.ldexp(8 + mantissa, np.maximum(exponent, 1) - 10)
    )
    value[0x7F] = 0
    return np.asarray(value / 2, np.float32)


_HALF_E4M3 = _half_e4m3()

FP4: Mapping[str, Decoder] = MappingProxyType(
    {"MXFP4": _mxfp4, "MXFP4_PAIRS": _mxfp4_pairs, "NVFP4": _nvfp4}
)
