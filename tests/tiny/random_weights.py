"""Random weights, tokens and quantised blocks that are the same on every machine.

Each value is a hash of (name, index), in integer arithmetic only: it depends neither on the NumPy
version nor on the order in which tensors are made, and any part can be made alone.
Knows no model and no file format beyond the byte layout of quantised blocks.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_N_PER_PASS = 1 << 15  # keeps the temporaries of one pass inside the processor's cache

BLOCK_SHAPES = {  # type -> (values a block, bytes a block)
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q8_0": (32, 34),
    "Q4_K": (256, 144),
    "Q6_K": (256, 210),
    "MXFP4": (32, 17),
    "MXFP4_PAIRS": (32, 17),
    "NVFP4": (64, 36),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q1_0": (128, 18),
    "Q2_0": (64, 18),
    "Q2_K": (256, 84),
    "Q3_K": (256, 110),
    "Q5_K": (256, 176),
    "IQ4_NL": (32, 18),
    "IQ4_XS": (256, 136),
    "IQ1_S": (256, 50),
    "IQ1_M": (256, 56),
    "IQ2_XXS": (256, 66),
    "IQ2_XS": (256, 74),
    "IQ2_S": (256, 82),
    "IQ3_XXS": (256, 98),
    "IQ3_S": (256, 110),
    "TQ1_0": (256, 54),
    "TQ2_0": (256, 66),
}
_ONE_SCALE = {  # type -> (where its scale stands, standard deviation of random bytes at scale 1)
    "Q5_0": (0, 9.23),
    "Q1_0": (0, 1.0),
    "Q2_0": (0, 1.12),
    "Q3_K": (108, 43.3),
    "IQ4_NL": (0, 67.1),
    "IQ4_XS": (0, 1246.0),
    "IQ1_S": (0, 7.21),
    "IQ2_XXS": (0, 53.4),
    "IQ2_XS": (0, 55.9),
    "IQ2_S": (0, 56.4),
    "IQ3_XXS": (0, 142.0),
    "IQ3_S": (0, 140.0),
    "TQ1_0": (52, 0.817),
    "TQ2_0": (64, 1.12),
}


def words(name: str, n: int, start: int = 0) -> U64:
    """Words `start` to `start + n` of the stream called `name`, uint64 [n].

    Source: SplitMix64 (Steele, Lea, Flood 2014), keyed by the first 8 bytes of SHA-256 of the name.
    """
    key = np.frombuffer(hashlib.sha256(name.encode()).digest()[:8], "<u8").astype(np.uint64)
    z = np.arange(start + 1, start + n + 1, dtype=np.uint64)
    z *= _GOLDEN
    z += key
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z


def _passes(n: int) -> Iterator[tuple[int, int]]:
    for start in range(0, n, _N_PER_PASS):
        yield start, min(_N_PER_PASS, n - start)


def affine(name: str, shape: Sequence[int], center: float, spread: float) -> F32:
    """center + spread * u with u uniform in [-1, 1) in steps of 2^-23, float32 [*shape].

    Each 64-bit word gives two values, low half first.
    """
    n = int(np.prod(shape, dtype=np.int64))
    out = np.empty(n + n % 2, np.float32)
    for start, count in _passes(len(out) // 2):
        halves = words(name, count, start).astype("<u8", copy=False).view("<u4")
        piece = out[2 * start : 2 * (start + count)]
        piece[:] = (halves >> np.uint32(8)).view(np.int32) - np.int32(1 << 23)
        piece *= np.float32(spread * 2.0**-23)
        if center != 0.0:
            piece += np.float32(center)
    return out[:n].reshape(shape)


def uniform(name: str, shape: Sequence[int]) -> F32:
    """Uniform values in [-1, 1), float32 [*shape]."""
    return affine(name, shape, 0.0, 1.0)


def weight(name: str, shape: Sequence[int], std: float) -> F32:
    """Uniform values of mean 0 and standard deviation `std`, float32 [*shape]."""
    return affine(name, shape, 0.0, std * 3.0**0.5)


def tokens(name: str, n: int, n_vocab: int) -> I64:
    """Token ids in [0, n_vocab), int64 [n]; a shorter call gives the start of a longer one."""
    return (words(name, n) % np.uint64(n_vocab)).astype(np.int64)


def random_bytes(name: str, n: int) -> U8:
    """Uniform bytes, uint8 [n]."""
    out = np.empty((n + 7) // 8, "<u8")
    for start, count in _passes(len(out)):
        out[start : start + count] = words(name, count, start)
    return out.view(np.uint8)[:n]


def digest_of_values(values: F32) -> str:
    """SHA-256 of float32 values, all NaN counted alike: processors differ in their bits."""
    one_nan = np.where(np.isnan(values), np.float32("nan"), values)
    return hashlib.sha256(one_nan.astype("<f4").tobytes()).hexdigest()


def block_bytes(name: str, n_blocks: int, type_name: str, std: float) -> U8:
    """Random quantised blocks whose values are about N(0, std), uint8 [n_blocks, bytes a block].

    Every field varies: codes over their whole range, scales by a quarter up and down (and by sign
    where nothing else stands beside them), K-quant sub-scales and minima over a range of their own,
    MXFP4 exponents by one.
    """
    n_bytes = BLOCK_SHAPES[type_name][1]
    blocks = random_bytes(name, n_blocks * n_bytes).reshape(n_blocks, n_bytes)
    vary = 1.0 + 0.25 * uniform(name + "/scale", (n_blocks, 2))
    if type_name in _ONE_SCALE:
        start, spread = _ONE_SCALE[type_name]
        sign = 1 - 2 * (words(name + "/sign", n_blocks) % np.uint64(2)).astype(np.int8)
        blocks[:, start : start + 2] = _f16(sign * vary[:, 0] * np.float32(std / spread))
    elif type_name in ("MXFP4", "MXFP4_PAIRS"):
        # code values have a standard deviation of 2.9
        exponent = round(127 + float(np.log2(std / 2.9)))
        blocks[:, 0] = exponent + words(name + "/exponent", n_blocks) % np.uint64(3) - np.uint64(1)
    elif type_name == "Q8_0":
        blocks[:, 0:2] = _f16(vary[:, 0] * (std / 73.9))
    elif type_name == "Q4_0":
        blocks[:, 0:2] = _f16(vary[:, 0] * (std / 4.64))
    elif type_name == "Q4_1":
        blocks[:, 0:2] = _f16(vary[:, 0] * (std / 4.61))
        blocks[:, 2:4] = _f16(vary[:, 1] * (-7.5 * std / 4.61))
    elif type_name == "Q5_1":
        blocks[:, 0:2] = _f16(vary[:, 0] * (std / 9.23))
        blocks[:, 2:4] = _f16(vary[:, 1] * (-15.5 * std / 9.23))
    elif type_name == "NVFP4":
        # code values have a standard deviation of 2.9
        near = words(name + "/code", n_blocks * 4).reshape(n_blocks, 4) % np.uint64(5)
        blocks[:, 0:4] = _e4m3(std / 2.9) - 2 + near.astype(np.uint8)
    elif type_name == "Q2_K":
        blocks[:, 80:82] = _f16(vary[:, 0] * (std / 13.9))
        blocks[:, 82:84] = _f16(vary[:, 1] * (1.5 * std / 13.9))
    elif type_name == "IQ1_M":
        words_of = blocks[:, 48:56].view("<u2")  # a quarter of the scale on top of each
        scale = _f16(vary[:, 0] * (std / 7.2)).view("<u2")
        words_of[:] = words_of % 4096 + ((scale >> np.arange(0, 16, 4)) % 16 * 4096)
    elif type_name in ("Q4_K", "Q5_K"):
        # sub-scales and minima are 24 to 55, so 40 on average
        spread, middle = (4.61, 7.5) if type_name == "Q4_K" else (9.23, 15.5)
        blocks[:, 0:2] = _f16(vary[:, 0] * (std / spread / 40))
        blocks[:, 2:4] = _f16(vary[:, 1] * (middle * std / spread / 40))
        blocks[:, 4:16] = _k_scales(name, n_blocks)
    elif type_name == "Q6_K":
        codes = words(name + "/sub", n_blocks * 16)
        sizes = (codes % np.uint64(24)).astype(np.int8) + 20
        signs = 1 - 2 * ((codes >> np.uint64(40)) % np.uint64(2)).astype(np.int8)
        blocks[:, 192:208] = (sizes * signs).astype(np.int8).view(np.uint8).reshape(n_blocks, 16)
        blocks[:, 208:210] = _f16(vary[:, 0] * (std / 18.5 / 32))
    else:
        raise ValueError(f"no random blocks of type {type_name}; expected {list(BLOCK_SHAPES)}")
    return blocks


def _f16(values: F32) -> U8:
    return values.astype("<f2").view(np.uint8).reshape(-1, 2)


def _e4m3(value: float) -> int:
    """The code of the E4M3 number next to a positive value."""
    mantissa, exponent = np.frexp(max(value, 2.0**-7))  # mantissa from 1/2 to 1
    if exponent < -5:
        return round(value * 512)
    return round(8 * (int(exponent) + 6) + 16 * (float(mantissa) - 0.5))


def _k_scales(name: str, n_blocks: int) -> U8:
    """Eight 6-bit scales and eight 6-bit minima in 12 bytes, uint8 [n_blocks, 12].

    Source: ggml's Q4_K: bytes 0-3 scales 0-3, bytes 4-7 minima 0-3, with the upper two bits of
    scales and minima 4-7 on top; bytes 8-11 lower nibbles of scales (low) and minima (high) 4-7.
    """
    values = (words(name + "/sub", n_blocks * 16) % np.uint64(32) + np.uint64(24)).astype(np.uint8)
    scales, minima = values.reshape(n_blocks, 2, 8).swapaxes(0, 1)
    out = np.empty((n_blocks, 12), np.uint8)
    out[:, 0:4] = scales[:, :4] | (scales[:, 4:] >> 4 << 6)
    out[:, 4:8] = minima[:, :4] | (minima[:, 4:] >> 4 << 6)
    out[:, 8:12] = (scales[:, 4:] & 15) | (minima[:, 4:] << 4)
    return out
