"""The small models in the box, `demo:NAME`; one of them runs where no model is named.

Each is a GGUF beside a card that tells what it was made from, in the package's folder `demo`.
"""

from collections.abc import Iterator
from pathlib import Path

from junto.errors import LibraryError
from junto.library.found import DEMO, Found

PREFIX = "demo:"
NAMES = ("qwen35moe", "gpt-oss")
DEFAULT = PREFIX + NAMES[0]

_FOLDER = Path(__file__).parents[1] / "demo"
_TYPE = "mixed"


def path_of(name: str) -> Path:
    """The file of one of `NAMES`."""
    return _FOLDER / f"{name}.gguf"


def models() -> Iterator[Found]:
    """Those whose files are there, the default first."""
    for name in NAMES:
        path = path_of(name)
        if path.is_file():
            yield Found(PREFIX + name, path, (path,), DEMO, _TYPE)


def called(text: str) -> Found | None:
    """The one that a name means, None where it is no such name; `demo:` alone is the default.

    LibraryError where there is none of the name.
    """
    wanted = text.lower()
    if not wanted.startswith(PREFIX):
        return None
    here = {model.name: model for model in models()}
    found = here.get(DEFAULT if wanted == PREFIX else wanted)
    if found is None:
        known = ", ".join(PREFIX + name for name in NAMES)
        raise LibraryError(f"{text}: no such demonstration model; there are {known}")
    return found
