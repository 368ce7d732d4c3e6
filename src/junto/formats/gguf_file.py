"""What an open GGUF file is, and the limits that its readers and writers share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from junto.formats.gguf_metadata import StoredValue, Value
from junto.formats.tensor import Tensor

MAX_BYTES_TENSOR_NAME = 64
MAX_DIMS = 4
ALIGNMENTS = tuple(1 << bit for bit in range(3, 21))  # 8 bytes to 1 MiB
DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True, slots=True, eq=False)
class GGUFFile:
    """An open GGUF file: metadata by key and tensors by name, both in the order of the file.

    stored   the metadata as the file holds it, for writers that copy it
    files    what it was read from: one file, or all parts of a split model
    """

    path: Path
    version: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, Tensor]
    stored: Mapping[str, StoredValue] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
