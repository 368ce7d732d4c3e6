"""The processor as the operating system describes it; memory is described by `junto.memory`.

Everything is read from files below a root and may be missing: an odd system gives None or nothing,
never an exception.
"""

import os
import platform
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from junto.memory import ROOT, MemoryState, memory, text_of
from junto.ops.cpu.processors import physical_cores, processors_of_quota

__all__ = ["MemoryState", "Processor", "list_of", "memory", "processor"]


def list_of(text: str | None) -> list[int]:
    """The numbers of a list as Linux writes it: "0-3,8" is 0, 1, 2, 3, 8."""
    numbers: list[int] = []
    for part in (text or "").split(","):
        ends = part.strip().split("-")
        if all(end.isdigit() for end in ends):
            numbers += range(int(ends[0]), int(ends[-1]) + 1)
    return numbers


@dataclass(frozen=True, slots=True)
class Processor:
    """What runs the threads.

    name        as the system calls it
    usable      numbers of the logical processors this process may use
    n_core      physical cores behind those; None where the system does not tell
    quota       processors' worth of time that the control group allows; None: no limit
    nodes       NUMA nodes, each with its logical processors
    """

    name: str
    usable: tuple[int, ...]
    n_core: int | None
    quota: int | None
    nodes: tuple[tuple[int, ...], ...]

    @property
    def n_usable_node(self) -> int:
        """NUMA nodes whose processors this process may use."""
        return sum(1 for node in self.nodes if set(node) & set(self.usable))


def processor(root: Path = ROOT) -> Processor:
    """The processor that this process runs on."""
    usable = _usable()
    return Processor(
        name=_name(root),
        usable=usable,
        n_core=physical_cores(usable, root),
        quota=processors_of_quota(root / "sys/fs/cgroup/cpu.max"),
        nodes=tuple(_nodes(root)),
    )


def _usable() -> tuple[int, ...]:
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def _name(root: Path) -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", text_of(root / "proc/cpuinfo") or "", re.M)
    return found[1].strip() if found else platform.processor() or platform.machine()


def _nodes(root: Path) -> Iterator[tuple[int, ...]]:
    folder = root / "sys/devices/system/node"
    with suppress(OSError):
        for node in sorted(folder.glob("node[0-9]*")):
            yield tuple(list_of(text_of(node / "cpulist")))
