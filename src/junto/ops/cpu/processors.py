"""How many processors this process may use: its affinity, and the quota of its control group."""

import math
import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_processors(quota: Path = QUOTA) -> int:
    """Processors of the affinity mask, or fewer where a control group allows less time."""
    allowed = len(os.sched_getaffinity(0))
    limit = processors_of_quota(quota)
    return allowed if limit is None else max(1, min(allowed, limit))


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
