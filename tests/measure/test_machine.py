"""The machine as read from files of a made-up root: whole, partly there, and not there at all."""

from pathlib import Path

import pytest

from junto.measure import machine
from junto.measure.machine import MemoryState, list_of, memory, processor


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def topology(cores: list[int]) -> dict[str, str]:
    folder = "sys/devices/system/cpu"
    files = {f"{folder}/cpu{i}/topology/core_id": f"{core}\n" for i, core in enumerate(cores)}
    return files | {name.replace("core_id", "physical_package_id"): "0\n" for name in files}


@pytest.fixture
def four_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_usable", lambda: (0, 1, 2, 3))


@pytest.mark.usefixtures("four_processors")
def test_a_whole_system_is_read(tmp_path: Path) -> None:
    nodes = "sys/devices/system/node"
    root = write(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: Made-up 9000\nflags\t: x\n",
            "sys/fs/cgroup/cpu.max": "250000 100000\n",
            f"{nodes}/node0/cpulist": "0-1\n",
            f"{nodes}/node1/cpulist": "2-3,8\n",
            f"{nodes}/node2/cpulist": "4-7\n",
            **topology([0, 0, 1, 1]),
        },
    )
    found = processor(root)
    assert found.name == "Made-up 9000"
    assert (found.n_core, found.quota) == (2, 3)
    assert found.nodes == ((0, 1), (2, 3, 8), (4, 5, 6, 7))
    assert found.n_usable_node == 2


@pytest.mark.usefixtures("four_processors")
def test_an_empty_system_is_read_too(tmp_path: Path) -> None:
    found = processor(tmp_path)
    assert found.name
    assert (found.n_core, found.quota, found.nodes) == (None, None, ())
    assert memory(tmp_path) == MemoryState(None, None, None, None, None)
    assert memory(tmp_path).free is None


@pytest.mark.usefixtures("four_processors")
def test_nonsense_is_not_taken_for_numbers(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/cpuinfo": "\x00\xff",
            "proc/meminfo": "MemTotal: lots\n",
            "sys/fs/cgroup/cpu.max": "many 100000",
            "sys/fs/cgroup/memory.max": "-1",
            "sys/devices/system/node/node0/cpulist": "a-b,,3",
            "sys/kernel/mm/transparent_hugepage/enabled": "",
        },
    )
    assert processor(root).nodes == ((3,),)
    assert memory(root) == MemoryState(None, None, None, None, None)


def test_memory_is_the_least_of_machine_and_group(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": "MemTotal:       1000 kB\nMemFree: 5 kB\nMemAvailable:    600 kB\n",
        "sys/fs/cgroup/memory.max": "500000\n",
        "sys/fs/cgroup/memory.current": "450000\n",
        "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 50000\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    }
    found = memory(write(tmp_path, files))
    assert found == MemoryState(1024000, 614400, 500000, 400000, "madvise")
    assert found.free == 100000
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert memory(tmp_path).free == 614400


def test_systems_without_affinity_count_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert machine._usable() == (0, 1, 2)


def test_lists_of_processors() -> None:
    assert list_of("0-3,8\n") == [0, 1, 2, 3, 8]
    assert list_of("") == []
    assert list_of(None) == []
