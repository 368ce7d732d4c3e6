"""Quantised rows by ggml_quantize_chunk of llama.cpp's library, and its errors as a golden.

    python -m tests.oracle.ggml_quantize         (writes tests/golden/quantize_errors.json)

Finds the library of an installed llama-cpp-python without importing it. Knows nothing of our
quantiser.
"""

import ctypes
import importlib.metadata
import importlib.util
import json
from functools import cache
from pathlib import Path

import numpy as np

from junto.formats.quant_types import TYPES
from tests.quantize.data_kinds import IMPORTANCES, KINDS, error
from tests.tiny.random_weights import F32, U8

GOLDEN = Path(__file__).parent.parent / "golden" / "quantize_errors.json"
NAMES = (
    *("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K", "MXFP4"),
    *("Q5_0", "Q5_1", "Q2_K", "Q3_K", "IQ4_NL"),
)


@cache
def library() -> ctypes.CDLL:
    """libggml-base; ImportError if llama-cpp-python is not installed."""
    found = importlib.util.find_spec("llama_cpp")
    if found is None or found.origin is None:
        raise ImportError("llama-cpp-python is not installed")
    ggml = ctypes.CDLL(str(Path(found.origin).parent / "lib" / "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [
        *(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
        *(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p),
    ]
    return ggml


def quantize(name: str, rows: F32, importance: F32 | None, out: U8) -> None:
    """Fill out [n_row, n_bytes_row], on one thread."""
    written = library().ggml_quantize_chunk(
        TYPES[name].ggml_id,
        rows.ctypes.data,
        out.ctypes.data,
        0,
        *rows.shape,
        None if importance is None else importance.ctypes.data,
    )
    assert written == out.nbytes, f"ggml wrote {written} bytes of {out.nbytes}"


def ggml_error(name: str, kind: str, importance: str) -> float:
    """The error that ggml leaves."""
    rows, weights = KINDS[kind](), IMPORTANCES[importance]()
    out = np.empty((len(rows), TYPES[name].n_bytes_row(rows.shape[1])), np.uint8)
    quantize(name, rows, weights, out)
    return error(name, out, rows, weights)


def main() -> None:
    """Write the golden."""
    errors = {
        name: {w: {kind: ggml_error(name, kind, w) for kind in KINDS} for w in IMPORTANCES}
        for name in NAMES
    }
    made_by = {
        "command": "python -m tests.oracle.ggml_quantize",
        "llama_cpp_python": importlib.metadata.version("llama-cpp-python"),
        "numpy": np.__version__,
    }
    GOLDEN.write_text(json.dumps({"made_by": made_by, "errors": errors}, indent=1) + "\n")
    print(f"wrote {GOLDEN.name}")


if __name__ == "__main__":
    main()
