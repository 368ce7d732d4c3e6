"""What `junto doctor` finds: facts of this machine as junto sees it, and advice where one is odd.

Each function looks at one matter, says what it found in a line or two, and never raises for what a
system may lack.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from junto import _kernels
from junto.measure.machine import MemoryState, Processor

LITTLE_MEMORY = 4 << 30
"""Less than this is free memory that few models fit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact.

    section  what it belongs to
    name     what it is about
    value    what was found
    advice   what to do about it; empty where all is well
    """

    section: str
    name: str
    value: str
    advice: str = ""


def of_kernels(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """CPU features, the level that is chosen, and why not a better one."""
    features = _kernels.cpu_features()
    yield Finding("kernels", "features", " ".join(features) or "none that kernels use")
    available = _kernels.levels()
    wanted = environment.get("JUNTO_ISA")
    if wanted is None:
        yield _best_level(available)
    elif wanted in available:
        advice = (
            "" if wanted == available[0] else f"unset it to run {available[0]}, which is faster"
        )
        yield Finding("kernels", "level", f"{wanted}, because JUNTO_ISA says so", advice)
    else:
        yield Finding(
            "kernels",
            "level",
            f"none: JUNTO_ISA is {wanted!r}",
            f"unset JUNTO_ISA, or set it to one of: {', '.join(available)}",
        )
    for name, needs in _kernels.level_needs():
        missing = [need for need in needs if need not in features]
        lacks = f"needs {', '.join(missing)}" if missing else "runs here"
        yield Finding("kernels", f"level {name}", lacks)


def _best_level(available: list[str]) -> Finding:
    advice = ""
    if available[0] == "portable":
        advice = "no kernels were written for this processor; expect a tenth of the speed"
    return Finding("kernels", "level", f"{available[0]}, the best that runs here", advice)


def of_processor(found: Processor) -> Iterator[Finding]:
    """How many threads are run, and why."""
    n = len(found.usable)
    yield Finding("processor", "name", found.name)
    yield Finding("processor", "usable", f"{n} logical processors (affinity of this process)")
    if found.n_core is not None:
        yield Finding("processor", "cores", f"{found.n_core} physical cores behind them")
    quota = "no limit" if found.quota is None else f"{found.quota} processors' worth of time"
    yield Finding("processor", "control group", quota)
    yield _threads(found)
    yield _nodes(found)


def _threads(found: Processor) -> Finding:
    kind = "logical processor" if found.n_core is None else "physical core"
    n = found.n_core or len(found.usable)
    if found.quota is not None and found.quota < n:
        return Finding("processor", "threads", f"{max(1, found.quota)}, the control group's limit")
    return Finding("processor", "threads", f"{n}, one each {kind}")


def _nodes(found: Processor) -> Finding:
    if not found.nodes:
        return Finding("processor", "NUMA", "not told by the system")
    if found.n_usable_node <= 1:
        return Finding("processor", "NUMA", "one node: all memory is equally near")
    return Finding(
        "processor",
        "NUMA",
        f"{found.n_usable_node} nodes: memory of another node is slower to read; weights are spread"
        " over all of them, but for a packed file's, which lie where it was read first",
        "a model that fits one node is faster there: numactl --cpunodebind=0 --membind=0 junto ...;"
        " one that does not, with numactl --interleave=all junto ... (packed file) or --no-cache",
    )


def of_memory(found: MemoryState) -> Iterator[Finding]:
    """What a model may take, and whether it gets large pages."""
    yield Finding(
        "memory", "of the machine", f"{_gb(found.total)}, {_gb(found.available)} available"
    )
    if found.limit is not None:
        used = _gb(found.used)
        yield Finding("memory", "control group", f"{_gb(found.limit)} allowed, {used} in use")
    free = found.free
    advice = ""
    if free is not None and free < LITTLE_MEMORY:
        advice = "close other programs, or take a small model and a small --n-ctx"
    yield Finding("memory", "for a model", _gb(free), advice)
    yield _huge_pages(found.huge_pages)


def _huge_pages(mode: str | None) -> Finding:
    advice = ""
    if mode == "never":
        advice = (
            "large pages make reading weights faster; as root: echo madvise >"
            " /sys/kernel/mm/transparent_hugepage/enabled"
        )
    return Finding("memory", "huge pages", mode or "not told by the system", advice)


def _gb(n_bytes: int | None) -> str:
    return "unknown" if n_bytes is None else f"{n_bytes / 1e9:.1f} GB"


def of_software(versions: Mapping[str, str]) -> Iterator[Finding]:
    """Versions, and what is missing."""
    for name, value in versions.items():
        advice = f"pip install {name}" if value == "missing" else ""
        if name == "kernels" and "," in value:
            advice = "this is a build for debugging; install a release build for speed"
        yield Finding("software", name, value, advice)


def of_environment(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Variables that change what runs."""
    names = ("JUNTO_ISA", "JUNTO_CACHE", "JUNTO_TEST_DATA", "OPENBLAS_NUM_THREADS")
    given = [name for name in names if name in environment]
    for name in given:
        yield Finding("environment", name, environment[name])
