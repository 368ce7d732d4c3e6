"""How many threads a process gets: its affinity, its cores, and the quota of its control group."""

import math
import os
from collections.abc import Iterable
from pathlib import Path

from junto.memory import ROOT, text_of

QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_processors(quota: Path = QUOTA) -> int:
    """Processors of the affinity mask, or fewer where a control group allows less time."""
    return _within(len(os.sched_getaffinity(0)), quota)


def default_threads(root: Path = ROOT, quota: Path = QUOTA) -> int:
    """One thread each physical core, within the same bounds.

    Two that share a core share its multipliers and its path to memory, and wait for each other.
    """
    allowed = os.sched_getaffinity(0)
    return _within(physical_cores(allowed, root) or len(allowed), quota)


def physical_cores(processors: Iterable[int], root: Path = ROOT) -> int | None:
    """Cores behind some logical processors; None where the system does not tell."""
    cores = set()
    for number in processors:
        folder = root / f"sys/devices/system/cpu/cpu{number}/topology"
        core = (text_of(folder / "physical_package_id"), text_of(folder / "core_id"))
        if None in core:
            return None
        cores.add(core)
    return len(cores)


def _within(n: int, quota: Path) -> int:
    limit = processors_of_quota(quota)
    return n if limit is None else max(1, min(n, limit))


def processors_of_quota(path: Path = QUOTA) -> int | None:
    """Whole processors of a cgroup v2 quota, rounded up; None where there is no limit."""
    try:
        share, period = path.read_text().split()
        return None if share == "max" else math.ceil(int(share) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return None


def clamped(wanted: int | None, usable: int) -> tuple[str, ...]:
    """A note where more threads are wanted than processors may be used."""
    if wanted is None or wanted <= usable:
        return ()
    return (f"{wanted} threads wanted, {usable} processors may be used; running {usable}",)
