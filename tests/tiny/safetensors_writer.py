"""Write safetensors: one file, or shards with an index, beside a config.json.

Source: the format's own description (8 bytes of header length, JSON header, data).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
DTYPES = {"float32": "F32", "uint8": "U8", "float16": "F16"}


def _encode(array: npt.NDArray[Any], bf16: bool) -> tuple[str, bytes]:
    if bf16 and array.dtype == np.float32:
        bits = np.ascontiguousarray(array).view("<u4")
        return "BF16", (bits >> np.uint32(16)).astype("<u2").tobytes()
    return DTYPES[array.dtype.name], np.ascontiguousarray(array).tobytes()


def write_file(path: Path, arrays: Arrays, *, bf16: bool = False) -> None:
    """Write one file; with `bf16` float32 arrays lose their lower 16 bits."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    pieces: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        dtype, data = _encode(array, bf16)
        header[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        pieces.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(pieces))


def write_folder(
    folder: Path, config: Mapping[str, Any], arrays: Arrays, *, shards: int = 1, bf16: bool = False
) -> None:
    """Write config.json and model.safetensors, or `shards` numbered files and their index.

    Tensors are dealt in turn, so that every layer is spread over all shards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if shards == 1:
        write_file(folder / "model.safetensors", arrays, bf16=bf16)
        return
    names = list(arrays)
    weight_map: dict[str, str] = {}
    for i in range(shards):
        file_name = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = {name: arrays[name] for name in names[i::shards]}
        write_file(folder / file_name, part, bf16=bf16)
        weight_map |= dict.fromkeys(part, file_name)
    n_bytes = sum(a.nbytes // (2 if bf16 and a.dtype == np.float32 else 1) for a in arrays.values())
    index = {"metadata": {"total_size": n_bytes}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
