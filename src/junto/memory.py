"""How much memory this process may still take.

Asked of the machine, of the control groups the process is in (both versions, and all groups above),
and of its own resource limits. Everything is read from files below a root and may be missing: an
odd system gives None, never an exception.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
_NO_LIMIT = 1 << 60
"""Version 1 of control groups writes a number about as large as this for none."""


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


@dataclass(frozen=True, slots=True)
class MemoryState:
    """Memory, in bytes; None where the system does not tell.

    total, available   of the machine
    limit, used        of the control group that leaves least, if one has a limit
    huge_pages         how transparent huge pages are given: "always", "madvise" or "never"
    process            what the process's own limits (ulimit -v, -d) leave
    """

    total: int | None
    available: int | None
    limit: int | None
    used: int | None
    huge_pages: str | None
    process: int | None = None

    @property
    def free(self) -> int | None:
        """What a model may take: the least of what machine, group and limits leave."""
        left = None if self.limit is None else max(0, self.limit - (self.used or 0))
        known = [value for value in (self.available, left, self.process) if value is not None]
        return min(known) if known else None


def memory(root: Path = ROOT) -> MemoryState:
    """Memory as it is now."""
    meminfo = text_of(root / "proc/meminfo") or ""
    groups = sorted(_groups(root), key=lambda group: group[0] - group[1])
    limit, used = groups[0] if groups else (None, None)
    pages = text_of(root / "sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", pages or "")
    return MemoryState(
        total=_kilobytes(meminfo, "MemTotal"),
        available=_kilobytes(meminfo, "MemAvailable"),
        limit=limit,
        used=used,
        huge_pages=chosen[1] if chosen else None,
        process=_left_of_process(root),
    )


def _groups(root: Path) -> Iterator[tuple[int, int]]:
    """(limit, used) of each control group with a limit that the process is in."""
    for folder in dict.fromkeys(_folders(root)):
        unified = _group(folder, "memory.max", "memory.current", "inactive_file")
        older = _group(
            folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        )
        yield from (found for found in (unified, older) if found is not None)


def _folders(root: Path) -> Iterator[Path]:
    """Folders of the process's groups and of those above; a container sees itself as the top."""
    groups = root / "sys/fs/cgroup"
    yield groups
    for line in (text_of(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers not in ("", "memory") or ".." in path:
            continue
        top = groups / controllers
        folder = top / path.strip("/")
        yield from (above for above in (folder, *folder.parents) if above.is_relative_to(top))


def _group(folder: Path, limit: str, used: str, cache: str) -> tuple[int, int] | None:
    """Limit and use of one group, without the file pages that it gives back when asked."""
    most, now = number_in(folder / limit), number_in(folder / used)
    if most is None or most >= _NO_LIMIT:
        return None
    cached = re.search(rf"^{cache} (\d+)$", text_of(folder / "memory.stat") or "", re.M)
    return most, (now or 0) - (int(cached[1]) if cached and now else 0)


def _left_of_process(root: Path) -> int | None:
    """The least that the limits on address space and data leave; None without such limits."""
    limits = text_of(root / "proc/self/limits") or ""
    status = text_of(root / "proc/self/status") or ""
    left = []
    for name, counter in (("address space", "VmSize"), ("data size", "VmData")):
        limit = re.search(rf"^Max {name}\s+(\d+) ", limits, re.M)
        if limit is not None:
            left.append(max(0, int(limit[1]) - (_kilobytes(status, counter) or 0)))
    return min(left) if left else None


def _kilobytes(text: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.M)
    return int(found[1]) * 1024 if found else None
