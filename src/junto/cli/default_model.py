"""The model that is meant by MODEL; when none is named, the small one that comes with junto."""

from pathlib import Path

from junto.library import find_model
from junto.library.demos import DEFAULT


def chosen_model(model: Path | None) -> Path:
    """The path of the model that is named, or of the default one; JuntoError where it is not."""
    return find_model(DEFAULT if model is None else model)
