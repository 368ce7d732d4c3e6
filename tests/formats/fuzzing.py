"""Fuzzing of the readers, guided by coverage: an input that reaches a new place breeds others.

Three targets: a GGUF, a .safetensors file, and the index of a checkpoint in shards. An input must
be read in full or refused by a JuntoError of one short line, within a second and 200 MB; what was
read must survive being written and read again. `tools/fuzz.py` runs this for long, the tests for
moments.
"""

import random
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from junto.errors import JuntoError
from junto.formats.gguf import read_gguf
from junto.formats.gguf_writer import OutTensor, write_gguf
from junto.formats.quants import DECODERS
from junto.formats.safetensors import read_safetensors
from junto.formats.safetensors_writer import write_safetensors
from junto.formats.tensor import Tensor
from tests.formats import mutation
from tests.formats.seeds import GGUF_SEEDS, INDEX_SEEDS, SAFETENSORS_SEEDS, SHARDS
from tests.peak_memory import peak_bytes

MAX_SECONDS = 1.0
MAX_BYTES = 200 << 20
MAX_CORPUS = 4000
MAX_MESSAGE = 1000
WRITE_AGAIN_EVERY = 8


@dataclass(frozen=True, slots=True)
class Target:
    """One reader: the name of its file, what it starts from, how inputs are made and read."""

    file_name: str
    seeds: Sequence[bytes]
    mutate: mutation.Mutate
    read: Callable[[Path], list[Tensor]]
    write_again: Callable[[Path, Path], None]
    beside: dict[str, bytes] = field(default_factory=dict)


def _read_gguf(path: Path) -> list[Tensor]:
    file = read_gguf(path)
    for value in file.metadata.values():
        if not isinstance(value, int | float | str):
            list(value)
    return list(file.tensors.values())


def _read_safetensors(path: Path) -> list[Tensor]:
    return list(read_safetensors(path).tensors.values())


def _contents(tensors: Sequence[Tensor]) -> list[Any]:
    return sorted((t.name, t.shape, t.type.name, t.data.tobytes()) for t in tensors)


def _write_gguf_again(path: Path, folder: Path) -> None:
    file = read_gguf(path)
    write_gguf(folder / "x.gguf", file.stored, list(map(OutTensor.copy, file.tensors.values())))
    again = read_gguf(folder / "x.gguf")
    assert {k: (v.type_id, v.data.tobytes()) for k, v in again.stored.items()} == (
        {k: (v.type_id, v.data.tobytes()) for k, v in file.stored.items()}
    ), "metadata changed when it was written"
    assert list(again.tensors) == list(file.tensors)
    assert _contents(list(again.tensors.values())) == _contents(list(file.tensors.values()))


def _write_safetensors_again(path: Path, folder: Path) -> None:
    tensors = _read_safetensors(path)
    write_safetensors(folder, list(map(OutTensor.copy, tensors)), {"format": "pt"}, 64)
    assert _contents(_read_safetensors(folder)) == _contents(tensors)


TARGETS = {
    "gguf": Target("x.gguf", GGUF_SEEDS, mutation.binary, _read_gguf, _write_gguf_again),
    "safetensors": Target(
        "x.safetensors",
        SAFETENSORS_SEEDS,
        mutation.safetensors,
        _read_safetensors,
        _write_safetensors_again,
    ),
    "index": Target(
        "model.safetensors.index.json",
        INDEX_SEEDS,
        mutation.json_text,
        _read_safetensors,
        _write_safetensors_again,
        SHARDS,
    ),
}


class Coverage:
    """Steps from line to line in junto/formats, as a trace function sees them."""

    def __init__(self) -> None:
        self.steps: set[tuple[CodeType, int, int]] = set()
        self._is_ours: dict[CodeType, bool] = {}
        self._last: dict[FrameType, int] = {}

    def trace(self, run: Callable[[], None]) -> bool:
        """Run something, and tell whether it took a step that none did before."""
        before = len(self.steps)
        others = sys.gettrace()
        sys.settrace(self._enter)
        try:
            run()
        finally:
            sys.settrace(others)
            self._last.clear()
        return len(self.steps) > before

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        ours = self._is_ours.get(code)
        if ours is None:
            ours = self._is_ours[code] = "/junto/formats/" in code.co_filename
        return self._step if ours else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        self.steps.add((frame.f_code, self._last.get(frame, 0), frame.f_lineno))
        self._last[frame] = frame.f_lineno
        return self._step


@dataclass(slots=True)
class Campaign:
    """What has been tried of one target, and what came of it.

    n_read     inputs that were read
    slowest    processor seconds of the slowest input
    failures   inputs that ended otherwise than they may, with what happened
    corpus     inputs that reached something new; `sound` are those of them that were read
    """

    name: str
    folder: Path
    seed: int
    n_tried: int = 0
    n_read: int = 0
    slowest: float = 0.0
    failures: list[tuple[bytes, str]] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    corpus: list[bytes] = field(default_factory=list)
    sound: list[bytes] = field(default_factory=list)
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, content in self._target.beside.items():
            (self.folder / name).write_bytes(content)
        for content in self._target.seeds:
            self._try(content)
            assert self.n_read == self.n_tried, "seeds are sound"

    @property
    def _target(self) -> Target:
        return TARGETS[self.name]

    def step(self) -> None:
        """Make one input and try it; half of them from files that can be read."""
        parents = self.sound if self._rng.random() < 0.5 else self.corpus
        self._try(self._target.mutate(self._rng, self._rng.choice(parents), self.corpus))

    def _try(self, content: bytes) -> None:
        path = self.folder / self._target.file_name
        path.write_bytes(content)
        n_read, peak, start = self.n_read, peak_bytes(), time.process_time()
        try:
            is_new = self.coverage.trace(lambda: self._read(path))
        except Exception:
            self.failures.append((content, traceback.format_exc()))
            is_new = False
        seconds, grown = time.process_time() - start, peak_bytes() - peak
        self.n_tried += 1
        self.slowest = max(self.slowest, seconds)
        if seconds > MAX_SECONDS or grown > MAX_BYTES:
            self.failures.append((content, f"took {seconds:.2f} s and {grown >> 20} MB"))
        if is_new and len(self.corpus) < MAX_CORPUS:
            self.corpus.append(content)
            if self.n_read > n_read:
                self.sound.append(content)

    def _read(self, path: Path) -> None:
        try:
            tensors = self._target.read(path)
        except JuntoError as error:
            _check_message(str(error))
            return
        for tensor in tensors:
            assert tensor.data.nbytes == tensor.n_bytes
            assert tensor.type.name not in DECODERS or tensor.float32().shape == tensor.shape
        self.n_read += 1
        if self.n_read % WRITE_AGAIN_EVERY == 1:
            again = self.folder / "again"
            again.mkdir()
            try:
                self._target.write_again(path, again)
            finally:
                shutil.rmtree(again)


def _check_message(message: str) -> None:
    if "\n" in message or len(message) > MAX_MESSAGE:
        raise ValueError(f"a message of {len(message)} characters: {message!r:.300}")
