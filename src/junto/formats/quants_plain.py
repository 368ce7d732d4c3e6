"""Numbers that are stored one by one: floats, integers and booleans."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from junto.formats.quant_fields import Decoder
from junto.formats.quant_types import U8


def _plain(dtype: str, blocks: U8) -> npt.NDArray[Any]:
    return blocks.view(dtype)


def _bool(blocks: U8) -> npt.NDArray[Any]:
    return blocks.astype(np.bool_)


def _bf16(blocks: U8) -> npt.NDArray[Any]:
    return (blocks.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


PLAIN: Mapping[str, Decoder] = MappingProxyType(
    {
        "F64": partial(_plain, "<f8"),
        "F32": partial(_plain, "<f4"),
        "F16": partial(_plain, "<f2"),
        "BF16": _bf16,
        "I64": partial(_plain, "<i8"),
        "I32": partial(_plain, "<i4"),
        "I16": partial(_plain, "<i2"),
        "I8": partial(_plain, "<i1"),
        "U64": partial(_plain, "<u8"),
        "U32": partial(_plain, "<u4"),
        "U16": partial(_plain, "<u2"),
        "U8": partial(_plain, "<u1"),
        "BOOL": _bool,
    }
)
