"""The processor and the memory as the operating system describes them.

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

from junto.ops.cpu.processors import processors_of_quota

ROOT = Path("/")


def text_of(path: Path) -> str | None:
    """What a small file says, without space around it; None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def number_in(path: Path) -> int | None:
    """The whole number in a file; None where there is none ("max" of a control group)."""
    text = text_of(path)
    return int(text) if text is not None and text.isdigit() else None


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
        n_core=_n_core(root, usable),
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


def _n_core(root: Path, usable: tuple[int, ...]) -> int | None:
    cores = set()
    for cpu in usable:
        folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        core = (text_of(folder / "physical_package_id"), text_of(folder / "core_id"))
        if None in core:
            return None
        cores.add(core)
    return len(cores)


def _nodes(root: Path) -> Iterator[tuple[int, ...]]:
    folder = root / "sys/devices/system/node"
    with suppress(OSError):
        for node in sorted(folder.glob("node[0-9]*")):
            yield tuple(list_of(text_of(node / "cpulist")))


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Memory, in bytes; None where the system does not tell.

    total, available   of the machine
    limit, used        of the control group, if it has a limit
    huge_pages         how transparent huge pages are given: "always", "madvise" or "never"
    """

    total: int | None
    available: int | None
    limit: int | None
    used: int | None
    huge_pages: str | None

    @property
    def free(self) -> int | None:
        """What a model may take: the least of what machine and control group leave."""
        left = None if self.limit is None else max(0, self.limit - (self.used or 0))
        known = [value for value in (self.available, left) if value is not None]
        return min(known) if known else None


def memory(root: Path = ROOT) -> MemoryState:
    """Memory as it is now."""
    meminfo = text_of(root / "proc/meminfo") or ""
    group = root / "sys/fs/cgroup"
    limit = number_in(group / "memory.max")
    pages = text_of(root / "sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", pages or "")
    return MemoryState(
        total=_from_meminfo(meminfo, "MemTotal"),
        available=_from_meminfo(meminfo, "MemAvailable"),
        limit=limit,
        used=None if limit is None else _in_use(group),
        huge_pages=chosen[1] if chosen else None,
    )


def _in_use(group: Path) -> int | None:
    """Memory of a control group without the file pages that it gives back when asked."""
    current = number_in(group / "memory.current")
    cached = re.search(r"^inactive_file (\d+)$", text_of(group / "memory.stat") or "", re.M)
    return None if current is None else current - (int(cached[1]) if cached else 0)


def _from_meminfo(text: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.M)
    return int(found[1]) * 1024 if found else None
