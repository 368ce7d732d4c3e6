"""Start-up, header parsing and memory, each beside its bound; `make limits` prints them.

Every figure is the median over fresh interpreters, so that nothing is warm but the page cache. The
last line is the same in JSON. The parsing rows need the real vocabularies (JUNTO_TEST_DATA); where
they are missing, it says so. Exits with 1 when a bound is broken.
"""

import json
import lzma
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
VOCABULARIES = ("qwen35moe-vocab.gguf", "gpt-oss-vocab.gguf")
TOKENIZERS = (*VOCABULARIES, "qwen35.tokenizer.json", "gpt-oss.tokenizer.json")
N_RUNS = 5

# VmHWM belongs to the new program alone; getrusage would carry over the peak of its parent.
PRINT_PEAK = """
import pathlib, re, sys
status = pathlib.Path("/proc/self/status").read_text()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024)
"""
IMPORT_JUNTO = """
import time
start = time.perf_counter()
import junto
print(time.perf_counter() - start)
"""
OPEN_VOCABULARY = f"""
import sys, time
from junto.formats.gguf import read_gguf
start = time.perf_counter()
tokens = read_gguf(sys.argv[1]).metadata["tokenizer.ggml.tokens"]
first, last, n_vocab = tokens[0], tokens[-1], len(tokens)
print(time.perf_counter() - start)
{PRINT_PEAK}
"""
# One thread works, so its processor time is the wall time of a machine that does nothing else.
LOAD_TOKENIZER = """
import pathlib, sys, time
from junto.chat.tokenizer import Tokenizer
from junto.formats.gguf import read_gguf
path = pathlib.Path(sys.argv[1])
start = time.process_time()
if path.suffix == ".gguf":
    tokenizer = Tokenizer.from_gguf(read_gguf(path).metadata, path.name)
else:
    tokenizer = Tokenizer.from_file(path)
tokenizer.encode("The first text of all.", special=False)
print(time.process_time() - start)
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity; bound is None where none was promised."""

    name: str
    value: float
    unit: str
    bound: float | None

    @property
    def is_kept(self) -> bool:
        """Whether the value is within its bound."""
        return self.bound is None or self.value <= self.bound


def run_python(code: str, *arguments: str) -> list[float]:
    """The numbers that the code prints in a fresh interpreter."""
    command = [sys.executable, "-c", code, *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [float(word) for word in printed.split()]


def medians(code: str, *arguments: str, n_runs: int = N_RUNS) -> list[float]:
    """The median of each number over several runs."""
    runs = [run_python(code, *arguments) for _ in range(n_runs)]
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def import_time(n_runs: int = N_RUNS) -> Figure:
    """`import junto`, without the start of the interpreter."""
    (seconds,) = medians(IMPORT_JUNTO, n_runs=n_runs)
    return Figure("import junto", seconds, "s", 0.3)


def help_time(n_runs: int = N_RUNS) -> Figure:
    """`junto --help` as a whole, with the start of the interpreter."""
    seconds = []
    for _ in range(n_runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "junto", "--help"], capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
    return Figure("junto --help", statistics.median(seconds), "s", None)


def vocabulary_figures(path: Path, n_runs: int = N_RUNS) -> list[Figure]:
    """Opening a vocabulary of real size and reading its first and last token."""
    seconds, peak = medians(OPEN_VOCABULARY, str(path), n_runs=n_runs)
    return [
        Figure(f"open {path.name}", seconds, "s", 0.5),
        Figure(f"open {path.name}, peak memory", peak, "MiB", 300),
    ]


def tokenizer_figure(path: Path, n_runs: int = N_RUNS) -> Figure:
    """From a file of real size to the ids of a first text, in processor time."""
    (seconds,) = medians(LOAD_TOKENIZER, str(path), n_runs=n_runs)
    return Figure(f"tokenizer of {path.name}", seconds, "s", 1.0)


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """The content of an .xz file as a temporary file of the same name without .xz."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / archive.stem
        path.write_bytes(lzma.decompress(archive.read_bytes()))
        yield path


def data_folder() -> Path:
    """The folder of the big test data, whether it exists or not."""
    return Path(os.environ.get("JUNTO_TEST_DATA") or REPOSITORY.parent / "shared" / "data")


def measure() -> list[Figure]:
    """All figures; a missing vocabulary is named on stderr."""
    figures = [import_time(), help_time()]
    for name in TOKENIZERS:
        archive = data_folder() / "tokenizers" / f"{name}.xz"
        if not archive.exists():
            print(f"tokenizers/{name}.xz is missing: set JUNTO_TEST_DATA", file=sys.stderr)
            continue
        with unpacked(archive) as path:
            figures += vocabulary_figures(path) if name in VOCABULARIES else []
            figures.append(tokenizer_figure(path))
    return figures


def commit() -> str:
    """The commit that was measured, with + for uncommitted changes."""
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty=+", "--abbrev=12"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def machine() -> str:
    """The processor's name and the number of CPUs this process may use."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    n_cpu = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{names[0] if names else platform.machine()}, {n_cpu} CPUs"


def show(figures: list[Figure]) -> None:
    """Print the table."""
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        bound = "" if figure.bound is None else f"bound {figure.bound:g} {figure.unit}"
        mark = "" if figure.is_kept else "  BROKEN"
        value = f"{figure.value:8.3f}" if figure.unit == "s" else f"{figure.value:8.0f}"
        print(f"{figure.name:<{width}} {value} {figure.unit:<4} {bound}{mark}".rstrip())


def main() -> int:
    """Measure, print, and tell by the exit code whether every bound is kept."""
    figures = measure()
    where = {"machine": machine(), "python": platform.python_version(), "commit": commit()}
    print(f"{where['machine']}; Python {where['python']}; commit {where['commit']}")
    show(figures)
    print(json.dumps({**where, "figures": [asdict(figure) for figure in figures]}))
    return 0 if all(figure.is_kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
