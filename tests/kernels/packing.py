"""Random stored weights for kernel tests, and what a product on them must give."""

import numpy as np

from junto import _kernels
from junto.formats.quants import TYPES, dequantize
from junto.ops.views import F32
from tests.tiny.random_weights import BLOCK_SHAPES, affine, block_bytes

QUANTISED = tuple(BLOCK_SHAPES)
FLOATS = ("F32", "F16", "BF16")


def stored_rows(name: str, type_name: str, n_out: int, n_in: int) -> np.ndarray:
    """Random rows as a file stores them: uint8 [n_out, bytes of a row]."""
    kind = TYPES[type_name]
    if type_name in QUANTISED:
        n_block = n_out * n_in // kind.n_per_block
        return np.asarray(block_bytes(name, n_block, type_name, n_in**-0.5)).reshape(n_out, -1)
    values = affine(name, (n_out, n_in), 0.0, 1.0)
    if type_name == "F32":
        return values.view(np.uint8)
    if type_name == "F16":
        return values.astype(np.float16).view(np.uint8)
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)


def values_of(type_name: str, rows: np.ndarray) -> np.ndarray:
    """The float64 values of stored rows [n_out, n_in]."""
    return dequantize(TYPES[type_name], rows).astype(np.float64)


def pack(
    type_name: str, experts: list[np.ndarray], n_in: int, pool: _kernels.ThreadPool
) -> _kernels.PackedMatrix:
    """Pack one matrix an expert."""
    matrix = _kernels.PackedMatrix(type_name, len(experts), len(experts[0]), n_in)
    for i, rows in enumerate(experts):
        matrix.fill(i, rows, pool)
    return matrix


def as_int8(x: F32) -> np.ndarray:
    """Activations as the kernels see them: codes of 8 bits with a scale per 32, in float64."""
    n_row, n_in = x.shape
    padded = np.zeros((n_row, -(-n_in // 32) * 32), np.float32)
    padded[:, :n_in] = x
    blocks = padded.reshape(n_row, -1, 32)
    scale = np.abs(blocks).max(axis=2, keepdims=True) / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    codes = np.rint(blocks * inverse).astype(np.float64)
    return np.asarray((codes * scale).reshape(n_row, -1)[:, :n_in])


def activations(type_name: str, x: F32) -> np.ndarray:
    """What a product with this type multiplies, in float64."""
    return as_int8(x) if type_name in QUANTISED else x.astype(np.float64)
