"""The compiled extension is there, agrees with the machine, and its stub says what it holds."""

import ast
import platform
from pathlib import Path

import pytest
from nanobind.stubgen import StubGen

import junto._kernels
from tests.data_dir import REPOSITORY

CPUINFO = Path("/proc/cpuinfo")
X86_NAMES = {
    *("sse4_1", "avx", "f16c", "fma", "avx2", "avxvnni"),
    *("avx512f", "avx512dq", "avx512bw", "avx512vl"),
    *("avx512vbmi", "avx512vnni", "avx512bf16"),
}
# Where Linux spells a name in its own way.
LINUX_NAMES = {"avxvnni": "avx_vnni", "avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16"}


def features_of_this_machine() -> set[str]:
    """What cpu_features must name here, asked from the operating system."""
    if platform.machine() not in {"x86_64", "aarch64"}:
        return set()
    if not CPUINFO.exists():
        pytest.skip("no /proc/cpuinfo to compare with")
    heads = ("flags", "Features")
    line = next(line for line in CPUINFO.read_text().splitlines() if line.startswith(heads))
    flags = set(line.split(":", 1)[1].split())
    if platform.machine() == "aarch64":
        return {"neon", *flags & {"asimddp", "i8mm"}}
    return {name for name in X86_NAMES if LINUX_NAMES.get(name, name) in flags}


def test_cpu_features_are_those_that_the_operating_system_reports() -> None:
    features = junto._kernels.cpu_features()
    assert set(features) == features_of_this_machine()
    assert len(set(features)) == len(features)


def test_each_call_gives_a_list_of_its_own() -> None:
    first = junto._kernels.cpu_features()
    first.append("changed by the caller")
    assert "changed by the caller" not in junto._kernels.cpu_features()


def test_committed_stub_is_the_one_that_nanobind_writes() -> None:
    generator = StubGen(junto._kernels)
    generator.put(junto._kernels)
    committed = (REPOSITORY / "src/junto/_kernels.pyi").read_text()
    written, kept = (ast.dump(ast.parse(text)) for text in (generator.get(), committed))
    assert written == kept, "the stub is out of date: run `make format`"
