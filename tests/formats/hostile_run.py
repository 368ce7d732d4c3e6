"""Opens and loads hostile files in a process of its own, whose memory cannot grow by 200 MB.

    python -m tests.formats.hostile_run PATH...

Prints one JSON line a path. A crash, a hang or an error of another kind than JuntoError is for the
caller to find: the line is missing or says so.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import junto
from junto.errors import JuntoError
from junto.formats.gguf import GGUFFile
from junto.models.loading import open_file
from tests.data_dir import REPOSITORY
from tests.peak_memory import peak_bytes

MAX_SECONDS = 1.0
MAX_BYTES = 200 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one path ended.

    refused   the message of the reader, "" if it read the file
    loaded    the message of `junto.load`, "" if there is a model
    seconds   processor time of both
    n_bytes   how far the peak of the process's memory rose
    """

    refused: str
    loaded: str
    seconds: float
    n_bytes: int


def run(paths: Iterable[Path]) -> list[Outcome]:
    """Open all paths in one new process; AssertionError with its output if it does not survive."""
    command = [sys.executable, "-m", "tests.formats.hostile_run", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, timeout=120)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    return [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]


def _outcome(path: Path) -> Outcome:
    peak, start = peak_bytes(), time.process_time()
    refused = loaded = ""
    try:
        _read_all(path)
    except JuntoError as error:
        refused = str(error)
    try:
        junto.load(path)
    except JuntoError as error:
        loaded = str(error)
    return Outcome(refused, loaded, time.process_time() - start, peak_bytes() - peak)


def _read_all(path: Path) -> None:
    """Open a file, and go through what is read lazily."""
    file = open_file(path)
    for tensor in file.tensors.values():
        assert tensor.data.nbytes == tensor.n_bytes, tensor.name
    if isinstance(file, GGUFFile):
        for value in file.metadata.values():
            if not isinstance(value, int | float | str):
                list(value)


def _limit_memory() -> None:
    size_in_pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = size_in_pages * resource.getpagesize() + MAX_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Open each path of the command line."""
    _limit_memory()
    for path in sys.argv[1:]:
        outcome = _outcome(Path(path))
        fields = {name: getattr(outcome, name) for name in outcome.__slots__}
        print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()
