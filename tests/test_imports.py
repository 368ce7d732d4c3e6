"""The core runs without the oracles and the GPU libraries, and starts at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny.models import TINY

# Runs in a fresh interpreter. Importing a blocked name fails even where the library is installed.
# The extra [cuda] owns ops.triton; __main__ would start the command line.
BLOCK = """
import importlib, pkgutil, sys

BLOCKED = {"torch", "transformers", "gguf", "llama_cpp", "triton", "safetensors"}

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"the core must not import {name}")

sys.meta_path.insert(0, Blocker())
"""

IMPORT_EVERYTHING = """
def walk(package):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if module.name.endswith(".__main__") or module.name == "junto.ops.triton":
            continue
        imported = importlib.import_module(module.name)
        print(module.name)
        if module.ispkg:
            walk(imported)

import junto
walk(junto)
"""

RUN_A_MODEL = """
import junto

model = junto.load(sys.argv[1])
print(*model.logits([1, 2, 3]).shape)
print(len(list(model.generate([1, 2, 3], n_predict=2, temperature=0))))
"""

TIME_IMPORT = """
import time
start = time.perf_counter()
import junto
print(time.perf_counter() - start)
"""


def run_python(code: str, *arguments: str) -> str:
    """What the code prints in a fresh interpreter."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_every_module_imports_without_oracles_and_gpu_libraries() -> None:
    imported = run_python(BLOCK + IMPORT_EVERYTHING).split()
    assert {"junto._kernels", "junto.errors", "junto.formats"} <= set(imported)


@pytest.mark.parametrize("name", ["qwen35moe_ratio2", "gpt_oss_mxfp4", "llama_tied"])
def test_a_model_runs_without_oracles_and_gpu_libraries(name: str, tmp_path: Path) -> None:
    tiny = TINY[name]
    for path in (
        tiny.write_gguf(tmp_path / "tiny.gguf"),
        tiny.write_safetensors(tmp_path / "tiny"),
    ):
        printed = run_python(BLOCK + RUN_A_MODEL, str(path)).split()
        assert printed == ["3", str(tiny.n_vocab), "2"]


def test_a_model_is_found_without_the_hub_s_library(tmp_path: Path) -> None:
    code = "import sys, junto.cli; from junto.library import find_model; find_model(sys.argv[1])"
    look = "; print({'huggingface_hub', 'numpy'} & set(sys.modules))"
    assert run_python(code + look, str(tmp_path)) in ("set()\n", "{'numpy'}\n")


def test_import_does_not_hang() -> None:
    """`make limits` shows the figure, bounded at 0.3 s; a test only bounds five times that."""
    assert min(float(run_python(TIME_IMPORT)) for _ in range(3)) < 5 * 0.3
