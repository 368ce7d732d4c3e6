"""The `general.*` metadata of a GGUF that is made from a folder.

Source: the GGUF specification, section on general metadata.
"""

import re
from pathlib import Path

from junto.formats.gguf_encoding import OutValue

QUANTIZATION_VERSION = 2
"""ggml's number for the layout of its blocks."""

_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_LICENCE = re.compile(r"^license:\s*[\"']?([\w.+-]+)", re.MULTILINE)
_N_BYTES_README = 1 << 16


def general_keys(architecture: str, folder: Path, file_type: int) -> dict[str, OutValue]:
    """Say what the model is: architecture, name of its folder, licence where the README has one."""
    licence = _licence(folder / "README.md")
    return {
        "general.architecture": architecture,
        "general.type": "model",
        "general.name": folder.resolve().name,
        **({"general.license": licence} if licence else {}),
        "general.file_type": file_type,
        "general.quantization_version": QUANTIZATION_VERSION,
    }


def _licence(readme: Path) -> str | None:
    if not readme.is_file():
        return None
    with readme.open("rb") as file:
        start = file.read(_N_BYTES_README).decode("utf-8", "replace").replace("\r\n", "\n")
    front = _FRONT_MATTER.match(start)
    found = _LICENCE.search(front[1]) if front else None
    return found[1] if found else None
