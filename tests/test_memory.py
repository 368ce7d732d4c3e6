"""Free memory as machine, control groups of both versions, and the process's limits leave it."""

import resource
import subprocess
import sys
from pathlib import Path

from junto.memory import memory

MEMINFO = {"proc/meminfo": "MemTotal:  9000 kB\nMemAvailable:  8000 kB\n"}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in {**MEMINFO, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_group_above_the_own_one_may_be_the_tightest(tmp_path: Path) -> None:
    group = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/user/me\n",
        f"{group}/user/memory.max": "5000\n",
        f"{group}/user/memory.current": "4600\n",
        f"{group}/user/memory.stat": "inactive_file 100\n",
        f"{group}/user/me/memory.max": "3000\n",
        f"{group}/user/me/memory.current": "1000\n",
    }
    found = memory(write(tmp_path, files))
    assert (found.limit, found.used, found.free) == (5000, 4500, 500)


def test_older_groups_are_read_in_their_own_tree(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/memory"
    files = {
        "proc/self/cgroup": "7:cpu:/x\n4:memory:/box/inner\n",
        f"{group}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{group}/memory.usage_in_bytes": "77\n",
        f"{group}/box/memory.limit_in_bytes": "4000\n",
        f"{group}/box/memory.usage_in_bytes": "1500\n",
        f"{group}/box/memory.stat": "inactive_file 1\ntotal_inactive_file 300\n",
    }
    found = memory(write(tmp_path, files))
    assert (found.limit, found.used, found.free) == (4000, 1200, 2800)


def test_limits_of_the_process_count(tmp_path: Path) -> None:
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max data size             unlimited            unlimited            bytes\n"
        "Max address space         3072000              unlimited            bytes\n"
    )
    status = "VmSize:\t  1000 kB\nVmData:\t  500 kB\n"
    found = memory(write(tmp_path, {"proc/self/limits": limits, "proc/self/status": status}))
    assert found.process == found.free == 3072000 - 1024000


def test_path_of_a_group_leads_nowhere_else(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/../../outside\n", "outside/memory.max": "1\n"}
    assert memory(write(tmp_path, files)).limit is None


def test_a_real_limit_is_seen() -> None:
    limit = 3 << 30
    done = subprocess.run(
        [sys.executable, "-c", "from junto.memory import memory; print(memory().free)"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0 < int(done.stdout) < limit
