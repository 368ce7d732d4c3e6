"""The peak of this process's own memory, for programs that tests run."""

import re
from pathlib import Path


def peak_bytes() -> int:
    """The most resident bytes since this program began.

    getrusage would carry over the peak of the process that started it, which after other tests
    is so large that nothing seems to grow.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found, "Linux says so"
    return int(found[1]) << 10
