"""A model that is on this machine, wherever it was found."""

from dataclasses import dataclass
from pathlib import Path

HUB, OLLAMA, OWN, DEMO = "hub", "Ollama", "JUNTO_MODELS", "junto"
"""Origins that something depends on; others are the names of programs."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Of the hub's cache: the folder of one commit, and the branches and tags that point to it."""

    repo: str
    folder: Path
    refs: tuple[str, ...]

    @property
    def commit(self) -> str:
        """The commit, in full."""
        return self.folder.name

    def is_at(self, revision: str) -> bool:
        """Whether a branch, a tag or the beginning of a commit means this snapshot."""
        return revision in self.refs or (len(revision) >= 6 and self.commit.startswith(revision))


@dataclass(frozen=True, slots=True)
class Found:
    """A model.

    name      what a MODEL argument takes for it
    path      what is opened: a file, the first part, or a folder
    files     all files of it
    origin    whose folder it lies in
    type      of its weights, as a name or a small file tells it; None if none does
    snapshot  where it lies, if that is the hub's cache
    """

    name: str
    path: Path
    files: tuple[Path, ...]
    origin: str
    type: str | None = None
    snapshot: Snapshot | None = None

    @property
    def n_bytes(self) -> int:
        """Size of the files that are there."""
        return sum(file.stat().st_size for file in self.files if file.exists())
