"""Facts and advice: each oddity of a machine has its advice, and a sound machine has none."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from junto import _kernels
from junto.measure import diagnosis, models_found
from junto.measure.diagnosis import Finding
from junto.measure.machine import MemoryState, Processor

SOUND = Processor("Made-up 9000", (0, 1, 2, 3), 4, None, ((0, 1, 2, 3),))
MEMORY = MemoryState(64 << 30, 60 << 30, None, None, "madvise")


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def advice(findings: Iterable[Finding]) -> dict[str, str]:
    return {finding.name: finding.advice for finding in findings if finding.advice}


def test_a_sound_machine_needs_no_advice() -> None:
    assert advice(diagnosis.of_processor(SOUND)) == {}
    assert advice(diagnosis.of_memory(MEMORY)) == {}
    assert advice(diagnosis.of_software({"numpy": "2.0", "kernels": "GCC 12"})) == {}


def test_a_core_gets_one_thread() -> None:
    threads = by_name(diagnosis.of_processor(Processor("x", (0, 1, 2, 3), 2, None, ())))["threads"]
    assert threads.value == "2, one each physical core"
    unknown = by_name(diagnosis.of_processor(Processor("x", (0, 1, 2, 3), None, None, ())))
    assert unknown["threads"].value == "4, one each logical processor"


def test_a_quota_bounds_the_threads() -> None:
    threads = by_name(diagnosis.of_processor(Processor("x", (0, 1, 2, 3), 4, 2, ())))["threads"]
    assert threads.value == "2, the control group's limit"


def test_what_several_nodes_mean_is_told() -> None:
    found = Processor("x", (0, 1, 2, 3), 4, None, ((0, 1), (2, 3)))
    told = {f.name: f for f in diagnosis.of_processor(found)}["NUMA"]
    assert "weights are spread over all of them" in told.value
    assert "numactl --interleave=all junto" in told.advice
    pinned = Processor("x", (0, 1), 2, None, ((0, 1), (2, 3)))
    assert advice(diagnosis.of_processor(pinned)) == {}


def test_little_memory_and_small_pages_are_said() -> None:
    found = MemoryState(8 << 30, 1 << 30, 2 << 30, 1 << 30, "never")
    assert set(advice(diagnosis.of_memory(found))) == {"for a model", "huge pages"}
    assert by_name(diagnosis.of_memory(found))["for a model"].value == "1.1 GB"


def test_what_a_system_does_not_tell_is_said_so() -> None:
    nothing = Processor("x", (0,), None, None, ())
    assert by_name(diagnosis.of_processor(nothing))["NUMA"].value == "not told by the system"
    found = by_name(diagnosis.of_memory(MemoryState(None, None, None, None, None)))
    assert found["for a model"].value == "unknown"
    assert found["huge pages"].value == "not told by the system"


def test_missing_packages_and_debug_builds_are_said() -> None:
    found = advice(diagnosis.of_software({"rich": "missing", "kernels": "GCC 12, assertions on"}))
    assert found["rich"] == "pip install rich"
    assert "release build" in found["kernels"]


def test_the_best_level_is_chosen_and_needs_nothing() -> None:
    best = _kernels.levels()[0]
    assert by_name(diagnosis.of_kernels({}))["level"].value == f"{best}, the best that runs here"


def test_a_level_chosen_by_hand_is_said_with_its_reason() -> None:
    slow = by_name(diagnosis.of_kernels({"JUNTO_ISA": "portable"}))["level"]
    assert slow.value == "portable, because JUNTO_ISA says so"
    unknown = by_name(diagnosis.of_kernels({"JUNTO_ISA": "mmx"}))["level"]
    assert unknown.value == "none: JUNTO_ISA is 'mmx'"
    assert "unset JUNTO_ISA, or set it to one of: " in unknown.advice


def test_better_levels_say_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kernels, "cpu_features", lambda: ["avx2", "fma"])
    monkeypatch.setattr(_kernels, "levels", lambda: ["portable"])
    monkeypatch.setattr(
        _kernels, "level_needs", lambda: [("avx2", ["avx2", "fma", "f16c"]), ("portable", [])]
    )
    found = by_name(diagnosis.of_kernels({}))
    assert found["level avx2"].value == "needs f16c"
    assert found["level portable"].value == "runs here"
    assert "a tenth of the speed" in found["level"].advice


def test_no_models_and_many_models() -> None:
    (nothing,) = models_found.of_models([])
    assert nothing.value.startswith("none here")
    found = list(models_found.of_models([(f"{i:02}", 10**7) for i in range(23)]))
    assert len(found) == models_found.N_SHOWN + 1
    assert (found[0].name, found[0].value) == ("00", "0.01 GB")
    assert (found[-1].name, found[-1].value) == ("more", "3")


def test_stale_packed_files_are_to_be_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUNTO_CACHE", str(tmp_path))
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "odd.packed").write_bytes(b"what")
    found = by_name(models_found.of_packed_files())
    folder = found[str(tmp_path / "packed")]
    assert folder.value.startswith("1 files, ")
    assert folder.advice.endswith("junto cache clear --stale")
