"""float32 rows to stored rows, by the C++ kernels.

What is made small is the squared error of each block, weighed by importance where it is given; the
search is in csrc/kernels/quantize_*.cpp. The bytes depend on the values and their importance alone:
not on threads, instruction set, or the rows that come along. It knows nothing of files.

Values that a type cannot hold are refused, never stored as infinity: NaN, infinity, and sizes above
65504 in types whose scales are float16. Values that lie below the smallest step of such a type
become zero.
"""

import os

import numpy as np

from junto import _kernels
from junto.errors import RequestError
from junto.formats.quant_types import F32, TYPES, U8, QuantType
from junto.ops.cpu.backend import choose_level
from junto.ops.cpu.processors import default_threads

QUANTIZED_TYPES = tuple(_kernels.quantized_types())
"""Names of the types that `quantize` can make."""


def quantize(
    type: QuantType | str,
    rows: F32,
    importance: F32 | None = None,
    *,
    name: str = "rows",
    pool: _kernels.ThreadPool | None = None,
    level: str | None = None,
) -> U8:
    """Quantise rows to a type.

    rows        F32 [..., n], n a multiple of the type's block
    importance  F32 [n]: weights of the squared errors, at least 0; or [n_expert, n], for rows
                [n_expert, ..., n]; None weighs all alike
    name        what the rows are, for messages
    pool        threads that share the work; None: one for each usable processor
    level       instruction set, as in `junto.ops.cpu.Cpu`; None: `JUNTO_ISA`, or the best
    returns     U8 [..., n_bytes_row]

    RequestError if the type is not of QUANTIZED_TYPES, if a value does not fit it, or if importance
    has another shape or a negative, infinite or NaN weight; FormatError if rows end inside a block.
    """
    kind = _checked_type(type)
    rows = np.ascontiguousarray(rows, np.float32)
    out = np.empty((*rows.shape[:-1], kind.n_bytes_row(rows.shape[-1])), np.uint8)
    _check_importance(importance, rows, name)
    pool = pool or _kernels.ThreadPool(default_threads())
    level = choose_level(level or os.environ.get("JUNTO_ISA"))
    n_part = len(rows) if importance is not None and importance.ndim == 2 else 1
    values, stored = (
        rows.reshape(n_part, -1, rows.shape[-1]),
        out.reshape(n_part, -1, out.shape[-1]),
    )
    weights = [None] * n_part if importance is None else list(importance.reshape(n_part, -1))
    for part, (x, w, to) in enumerate(zip(values, weights, stored, strict=True)):
        bad = _kernels.quantize(level, pool, kind.name, x, w, to)
        if bad >= 0:
            raise _does_not_fit(kind, rows, part * x.size + bad, name)
    return out


def _checked_type(type: QuantType | str) -> QuantType:
    name = type if isinstance(type, str) else type.name
    if name not in QUANTIZED_TYPES:
        raise RequestError(
            f"cannot quantise to {name!r}; types that can be made: {', '.join(QUANTIZED_TYPES)}"
        )
    return TYPES[name]


def _check_importance(importance: F32 | None, rows: F32, name: str) -> None:
    if importance is None:
        return
    n = rows.shape[-1]
    allowed = [(n,), (len(rows), n)] if rows.ndim > 2 else [(n,)]
    if importance.shape not in allowed:
        raise RequestError(
            f"{name}: importance has shape {importance.shape}, expected "
            f"{' or '.join(map(str, allowed))} for rows of shape {rows.shape}"
        )
    good = np.isfinite(importance) & (importance >= 0)
    if importance.dtype != np.float32 or not good.all():
        at = tuple(int(i) for i in np.argwhere(~good)[0]) if not good.all() else ()
        what = f"{importance[at]} at {list(at)}" if at else f"of type {importance.dtype}"
        raise RequestError(f"{name}: importance is {what}, expected finite float32 weights >= 0")


def _does_not_fit(kind: QuantType, rows: F32, index: int, name: str) -> RequestError:
    at = [int(i) for i in np.unravel_index(index, rows.shape)]
    value = rows.reshape(-1)[index]
    limit = _kernels.largest_value(kind.name)
    advice = "; store it as BF16 or F32" if np.isfinite(value) and kind.name != "BF16" else ""
    return RequestError(
        f"{name}: value at {at} is {value}; {kind.name} takes finite values up to {limit:.8g} "
        f"in size{advice}"
    )
