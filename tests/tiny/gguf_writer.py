"""Write a GGUF file with the `gguf` package: float32 tensors and rows of quantised blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows of quantised blocks: `rows` is uint8 [..., bytes a row], `type_name` as in ggml."""

    type_name: str
    rows: npt.NDArray[np.uint8]

    def float32(self) -> npt.NDArray[np.float32]:
        """The values, by gguf-py."""
        import gguf

        kind = gguf.GGMLQuantizationType[self.type_name]
        return np.asarray(gguf.dequantize(self.rows, kind), np.float32)


GGUFTensor = npt.NDArray[np.float32] | Packed


def write_gguf(
    path: Path, arch: str, metadata: Mapping[str, Any], tensors: Mapping[str, GGUFTensor]
) -> None:
    """Write `tensors` in their order, version 3, alignment 32."""
    import gguf

    writer = gguf.GGUFWriter(path, arch)
    for key, value in metadata.items():
        _add(writer, key, value)
    for name, tensor in tensors.items():
        if isinstance(tensor, Packed):
            kind = gguf.GGMLQuantizationType[tensor.type_name]
            writer.add_tensor(name, np.ascontiguousarray(tensor.rows), raw_dtype=kind)
        else:
            writer.add_tensor(name, np.ascontiguousarray(tensor, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: Any, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)
