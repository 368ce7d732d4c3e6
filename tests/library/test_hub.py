"""Fetching from a hub double: resumed, checked, and refused in one line."""

import errno
import hashlib
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants, file_download, hf_hub_download

from junto.errors import DiskError, LibraryError
from junto.library import download, hub
from junto.library.find import find_model
from junto.library.names import demand_name
from tests.library.hub_double import COMMIT, HubDouble, isolate, serving

REPO = "acme/Tiny-GGUF"
DATA = bytes(i * i % 251 for i in range(50_007))
CHUNK = 1_000


@pytest.fixture
def double() -> HubDouble:
    return HubDouble({REPO: {"README.md": b"hello", "Tiny-Q4_K_M.gguf": DATA}})


@pytest.fixture
def cache(double: HubDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", CHUNK)
    monkeypatch.setattr(file_download, "time", SimpleNamespace(sleep=lambda seconds: None))
    with serving(double) as address:
        yield isolate(monkeypatch, tmp_path, address)


def pull(name: str, cache: Path) -> Path:
    return hub.fetch(hub.plan(demand_name(name), cache), lambda done, total: None)


def partials(cache: Path) -> list[Path]:
    return list(cache.rglob(f"*{download.PARTIAL_SUFFIX}"))


def test_a_file_comes_into_the_hub_s_cache_and_is_found_by_its_name(cache: Path) -> None:
    path = pull(REPO, cache)
    assert path.read_bytes() == DATA
    assert path == Path(hf_hub_download(REPO, path.name, cache_dir=cache, local_files_only=True))
    assert find_model(REPO) == find_model(f"{REPO}:q4_k_m") == path
    assert not partials(cache)


def test_what_is_there_is_not_fetched_again(cache: Path, double: HubDouble) -> None:
    pull(REPO, cache)
    plan = hub.plan(demand_name(REPO), cache)
    assert plan.missing == ()
    assert hub.fetch(plan, lambda done, total: None).read_bytes() == DATA
    assert double.first_bytes("Tiny-Q4_K_M.gguf") == [0]


def test_a_cut_connection_is_resumed_where_it_broke(cache: Path, double: HubDouble) -> None:
    double.cuts = [7 * CHUNK + 1, 5 * CHUNK]
    assert pull(REPO, cache).read_bytes() == DATA
    first, second, third = double.first_bytes("Tiny-Q4_K_M.gguf")
    assert (first, second) == (0, 7 * CHUNK)
    assert second < third <= 12 * CHUNK


def test_a_new_process_goes_on_where_ctrl_c_stopped_the_last(
    cache: Path, double: HubDouble
) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 20 * CHUNK:
            raise KeyboardInterrupt

    plan = hub.plan(demand_name(REPO), cache)
    with pytest.raises(KeyboardInterrupt):
        hub.fetch(plan, interrupt)
    assert not list(cache.rglob("snapshots/*/*.gguf"))
    again = hub.plan(demand_name(REPO), cache)
    assert (again.n_bytes, again.n_to_fetch) == (len(DATA), len(DATA) - 20 * CHUNK)
    seen: list[tuple[int, int]] = []
    path = hub.fetch(again, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == DATA
    assert double.first_bytes("Tiny-Q4_K_M.gguf") == [0, 20 * CHUNK]
    assert seen[0] == (21 * CHUNK, len(DATA))
    assert seen[-1] == (len(DATA), len(DATA))


def test_a_connection_that_stays_broken_is_one_line_and_keeps_what_came(
    cache: Path, double: HubDouble
) -> None:
    double.cuts = [3 * CHUNK] + [0] * 6
    with pytest.raises(LibraryError, match="the same command goes on where it stopped"):
        pull(REPO, cache)
    (partial,) = partials(cache)
    assert partial.read_bytes() == DATA[: 3 * CHUNK]
    assert pull(REPO, cache).read_bytes() == DATA


def test_a_leftover_of_the_wrong_length_is_not_believed(cache: Path) -> None:
    blobs = hub.plan(demand_name(REPO), cache).blobs
    blobs.mkdir(parents=True)
    sha256 = hashlib.sha256(DATA).hexdigest()
    (blobs / f"{sha256}{download.PARTIAL_SUFFIX}").write_bytes(DATA + b"more")
    assert pull(REPO, cache).read_bytes() == DATA


@pytest.mark.parametrize("name", ["Tiny-Q4_K_M.gguf", "README.md"])
def test_a_wrong_checksum_is_told_and_nothing_of_it_stays(
    name: str, cache: Path, double: HubDouble
) -> None:
    double.spoilt.add(name)
    with pytest.raises(LibraryError, match=rf"{name}: damaged on the way: .*pull again"):
        pull(f"{REPO}/{name}", cache)
    assert not [p for p in cache.rglob("blobs/*") if p.stat().st_size]
    double.spoilt.clear()
    assert pull(f"{REPO}/{name}", cache).read_bytes() == double.repos[REPO][name]


def test_files_that_only_the_library_can_fetch_are_checked_too(
    cache: Path, double: HubDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MAX_RANGE", len(DATA) - 1)
    double.spoilt.add("Tiny-Q4_K_M.gguf")
    with pytest.raises(LibraryError, match="damaged on the way: sha256"):
        pull(REPO, cache)
    double.spoilt.clear()
    assert pull(REPO, cache).read_bytes() == DATA


def test_a_new_commit_with_the_same_file_needs_no_bytes(cache: Path, double: HubDouble) -> None:
    old = pull(REPO, cache).parent
    old.rename(old.with_name("2e" * 20))
    plan = hub.plan(demand_name(REPO), cache)
    assert (plan.n_bytes, plan.n_to_fetch) == (len(DATA), 0)
    assert hub.fetch(plan, lambda done, total: None).read_bytes() == DATA
    assert double.first_bytes("Tiny-Q4_K_M.gguf") == [0]


def test_all_parts_of_a_split_model_come_and_the_first_is_opened(
    cache: Path, double: HubDouble
) -> None:
    parts = {f"Q8_0/Big-Q8_0-0000{i}-of-00003.gguf": DATA[: 100 * i + 1] for i in (1, 2, 3)}
    double.repos[REPO] |= parts | {"mmproj-Q8_0.gguf": b"eye"}
    path = pull(f"{REPO}:Q8_0", cache)
    assert path.name == "Big-Q8_0-00001-of-00003.gguf"
    assert sorted(p.name for p in path.parent.iterdir()) == [p.split("/")[1] for p in parts]
    assert find_model(f"{REPO}:Q8_0") == path


def test_a_safetensors_repository_comes_as_a_folder(cache: Path, double: HubDouble) -> None:
    double.repos["acme/Tiny"] = {
        "config.json": b'{"torch_dtype": "bfloat16"}',
        "tokenizer.json": b"{}",
        "model.safetensors": DATA,
        "original/model.safetensors": DATA,
        "README.md": b"",
    }
    path = pull("acme/Tiny", cache)
    names = {"config.json", "tokenizer.json", "model.safetensors"}
    assert {p.name for p in path.iterdir()} == names
    assert find_model("acme/Tiny") == path


def test_a_revision_is_pinned_and_found_again(cache: Path, double: HubDouble) -> None:
    path = pull(f"{REPO}@v1", cache)
    assert path.parent.name == COMMIT
    assert find_model(f"{REPO}@v1") == find_model(f"{REPO}@{COMMIT[:8]}") == path
    assert not (cache / "models--acme--Tiny-GGUF/refs/main").exists()
    with pytest.raises(LibraryError, match="has no revision v9"):
        pull(f"{REPO}@v9", cache)


def test_a_token_stays_with_the_hub_when_a_file_comes_from_elsewhere(
    cache: Path, double: HubDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    double.redirect = True
    double.cuts = [4 * CHUNK]
    assert pull(REPO, cache).read_bytes() == DATA
    tokens = {asked.host.partition(":")[0]: asked.token for asked in double.asked}
    assert tokens == {"127.0.0.1": "Bearer hf_secret", "localhost": None}


def test_a_missing_repository_is_one_line(cache: Path) -> None:
    with pytest.raises(LibraryError, match=r"^acme/None: no such repository on the hub") as told:
        pull("acme/None", cache)
    assert "\n" not in str(told.value)


def test_a_gated_repository_tells_of_terms_and_token(cache: Path, double: HubDouble) -> None:
    double.gated.add(REPO)
    with pytest.raises(
        LibraryError, match=r"gated; accept its terms at .*/acme/Tiny-GGUF.*HF_TOKEN"
    ):
        pull(REPO, cache)


def test_no_hub_is_told_at_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(LibraryError, match=r"http://127\.0\.0\.1:9 was not reached"):
        pull(REPO, cache)


def test_a_hub_that_says_nothing_is_not_waited_for(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(LibraryError, match=r"was not reached, or .*timed out"):
            pull(REPO, cache)


def test_a_full_disk_is_told_before_the_first_byte(
    cache: Path, double: HubDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = hub.SLACK + len(DATA) - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, free))
    with pytest.raises(DiskError, match=r"needs 0\.00 GB, and 0\.07 GB are free in "):
        pull(REPO, cache)
    assert double.first_bytes("Tiny-Q4_K_M.gguf") == []


def test_a_disk_that_fills_up_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(done: int, total: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskError, match="the disk is full"):
        hub.fetch(hub.plan(demand_name(REPO), cache), fill)


def test_two_processes_do_not_write_one_file(cache: Path) -> None:
    plan = hub.plan(demand_name(REPO), cache)

    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(LibraryError, match="another process is fetching it"):
            hub.fetch(hub.plan(demand_name(REPO), cache), lambda done, total: None)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hub.fetch(plan, meanwhile)
