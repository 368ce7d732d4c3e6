"""What libggml decodes random blocks to, by its own C functions: a digest a type.

`python -m tests.oracle.libggml` writes tests/golden/libggml.json. Knows nothing of `junto`.
"""

import ctypes
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tests.oracle import llama_cpp_oracle
from tests.tiny.random_weights import F32, U8, digest_of_values, random_bytes

GOLDEN = Path(__file__).parent.parent / "golden" / "libggml.json"
N_BLOCK = 500
_ToFloat = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class _TypeTraits(ctypes.Structure):
    """The first fields of ggml_type_traits (source: ggml.h)."""

    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("n_per_block", ctypes.c_int64),
        ("interleaved", ctypes.c_int64),
        ("n_bytes_per_block", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", _ToFloat),
    )


def _traits(ggml_id: int) -> _TypeTraits:
    spec = find_spec("llama_cpp")
    assert spec is not None, "llama-cpp-python is not installed"
    assert spec.origin is not None, "a package has an __init__.py"
    library = ctypes.CDLL(str(Path(spec.origin).parent / "lib" / "libggml-base.so"))
    library.ggml_get_type_traits.restype = ctypes.POINTER(_TypeTraits)
    traits: _TypeTraits = library.ggml_get_type_traits(ggml_id).contents
    return traits


def decode(ggml_id: int, blocks: U8) -> F32:
    """Decode blocks U8 [n_block, n_bytes_per_block] by libggml to F32 [n_block * n_per_block]."""
    traits = _traits(ggml_id)
    out = np.empty(len(blocks) * traits.n_per_block, np.float32)
    traits.to_float(blocks.ctypes.data, out.ctypes.data, out.size)
    return out


def main() -> None:
    """Record every quantised type that libggml can decode."""
    types = {}
    for ggml_id in range(43):
        traits = _traits(ggml_id)
        if not (traits.is_quantized and traits.to_float):
            continue
        name, n_bytes = traits.type_name.decode().upper(), int(traits.n_bytes_per_block)
        blocks = random_bytes(f"libggml/{name}", N_BLOCK * n_bytes).reshape(N_BLOCK, n_bytes)
        types[name] = {
            "id": ggml_id,
            "n_bytes_per_block": n_bytes,
            "sha256": digest_of_values(decode(ggml_id, blocks)),
        }
    golden = {
        "command": "python -m tests.oracle.libggml",
        "versions": llama_cpp_oracle.versions(),
        "n_block": N_BLOCK,
        "types": types,
    }
    GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
