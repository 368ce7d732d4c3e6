"""Keys and values as codes with scales: Q8_0 and Q4_0 of whole blocks, in NumPy.

Every step is a float32 operation that a machine rounds alike, so that the kernels give equal codes.
The scale is rounded to float16 before it divides. Knows nothing of tables or time.
"""

import numpy as np
import numpy.typing as npt

from junto.ops.views import F32, I32, Codes, KVArray

I8 = npt.NDArray[np.int8]
U8 = npt.NDArray[np.uint8]
F16 = npt.NDArray[np.float16]

N_GROUP = 32
"""Values along head_dim that share a scale."""


def read_keys(k: Codes, blocks: I32) -> F32:
    """Keys of blocks [n_block] -> [n_block, n_head_kv, head_dim, 64]."""
    return _values(k.codes[blocks]) * np.repeat(k.scales[blocks], N_GROUP, 2).astype(np.float32)


def read_values(v: Codes, blocks: I32) -> F32:
    """Values of blocks [n_block] -> [n_block, n_head_kv, 64, head_dim]."""
    scales = np.repeat(v.scales[blocks], N_GROUP, 2).swapaxes(2, 3)
    return _values(v.codes[blocks]) * scales.astype(np.float32)


def write_keys(k: Codes, blocks: I32, rows: F16) -> None:
    """Quantise keys [n_block, n_head_kv, head_dim, 64] into blocks [n_block]."""
    codes, scales = quantise(rows.swapaxes(2, 3), k.codes.dtype == np.int8)
    k.codes[blocks] = _stored(codes.swapaxes(2, 3), k)
    k.scales[blocks] = scales.swapaxes(2, 3)


def write_values(v: Codes, blocks: I32, rows: F16) -> None:
    """Quantise values [n_block, n_head_kv, 64, head_dim] into blocks [n_block]."""
    codes, scales = quantise(rows, v.codes.dtype == np.int8)
    v.codes[blocks] = _stored(codes, v)
    v.scales[blocks] = scales.swapaxes(2, 3)


def quantise(rows: F16, is_q8: bool) -> tuple[I8, F16]:
    """Codes [..., head_dim] and scales [..., head_dim / 32] of rows [..., head_dim].

    Q8_0: the largest magnitude becomes 127. Q4_0: the value of largest magnitude becomes -8; of two
    that are equal, the negative one.
    """
    groups = rows.astype(np.float32).reshape(*rows.shape[:-1], -1, N_GROUP)
    low, high = groups.min(axis=-1), groups.max(axis=-1)
    if is_q8:
        limits, scale = (-127, 127), np.maximum(high, -low) / np.float32(127)
    else:
        limits, scale = (-8, 7), np.where(-low >= high, low, high) / np.float32(-8)
    scales = scale.astype(np.float16)
    divisor = scales.astype(np.float32)[..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(divisor == 0, 0, np.rint(groups / divisor))
    limited = np.fmin(np.fmax(codes, limits[0]), limits[1])
    return limited.astype(np.int8).reshape(rows.shape), scales


def _stored(codes: I8, to: Codes) -> I8 | U8:
    """Codes [..., n_row, n_lane] as the pool keeps them; see `Codes`."""
    if to.codes.dtype == np.int8:
        return codes
    nibbles = (codes + 8).astype(np.uint8)
    return nibbles[..., ::2, :] | (nibbles[..., 1::2, :] << np.uint8(4))


def _values(stored: KVArray) -> F32:
    """Codes of a pool as float32 [..., n_row, n_lane], without their scale."""
    if stored.dtype == np.int8:
        return stored.astype(np.float32)
    rows = np.stack([stored & 15, stored >> 4], axis=-2)  # [..., n_row / 2, 2, n_lane]
    signed: F32 = rows.astype(np.float32) - np.float32(8)
    return signed.reshape(*stored.shape[:-2], -1, stored.shape[-1])
