"""What a name means on the hub, and its files fetched into the hub's own cache.

Other programs find what lies there, and what they fetched is not fetched again. Only files that a
model consists of are taken (`choice`); every file is compared with the checksum the hub tells.
"""

import logging
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from junto.errors import DiskError, LibraryError
from junto.library.choice import choose
from junto.library.download import RemoteFile, bring, n_bytes_here, verify
from junto.library.hub_errors import told
from junto.library.names import Reference

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

HUB = "https://huggingface.co"
TIMEOUT_S = 10.0
MAX_RANGE = 50 * 10**9
"""Bytes beyond which the hub serves a file by its Xet protocol alone: huggingface_hub fetches such,
and begins anew after an interruption."""
SLACK = 64 << 20
"""Bytes that shall stay free on the disk."""

Progress = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes of all files."""

_SHA256, _COMMIT = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Plan:
    """A commit, the files of the model in it, those not here yet, and the cache they go to."""

    wanted: Reference
    commit: str
    files: tuple[RemoteFile, ...]
    missing: tuple[RemoteFile, ...]
    cache: Path

    @property
    def n_bytes(self) -> int:
        """Of the files that are not here yet, with parts of them that are."""
        return sum(file.n_bytes for file in self.missing)

    @property
    def folder(self) -> Path:
        """The repository's folder in the cache."""
        return self.cache / f"models--{self.wanted.repo.replace('/', '--')}"

    @property
    def blobs(self) -> Path:
        """The folder of its files by their checksums."""
        return self.folder / "blobs"

    @property
    def n_to_fetch(self) -> int:
        """Bytes that are still to come."""
        return self.n_bytes - sum(n_bytes_here(self.blobs, file) for file in self.missing)

    @property
    def path(self) -> Path:
        """What is opened when all is here: a file, the first part, or the folder of safetensors."""
        snapshot = self.folder / "snapshots" / self.commit
        first = self.files[0].path
        is_folder = first.endswith(".safetensors") and self.wanted.file is None
        return snapshot if is_folder else snapshot / first


def endpoint() -> str:
    """The hub's address; HF_ENDPOINT names another."""
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def plan(wanted: Reference, cache: Path) -> Plan:
    """Ask the hub what a name means; LibraryError where it means nothing, or no hub answers."""
    from huggingface_hub import HfApi, try_to_load_from_cache

    with told(wanted, endpoint()):
        api = HfApi(endpoint=endpoint(), library_name="junto")
        info = api.model_info(
            wanted.repo,
            revision=wanted.revision or "main",
            files_metadata=True,
            timeout=TIMEOUT_S,
        )
        by_path = {file.path: file for file in map(_remote, info.siblings or [])}
        files = tuple(by_path[path] for path in choose(list(by_path), wanted))
        commit = str(info.sha)
        if not _COMMIT.fullmatch(commit):
            raise LibraryError(f"{wanted}: the hub tells no commit; is {endpoint()} a hub?")
        missing = tuple(
            file
            for file in files
            if not isinstance(try_to_load_from_cache(wanted.repo, file.path, cache, commit), str)
        )
    return Plan(wanted, commit, files, missing, cache)


def refuse_full_disk(plan: Plan) -> None:
    """DiskError, with both numbers, if the files that are missing do not fit on the disk."""
    place = next(path for path in (plan.cache, *plan.cache.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if plan.n_to_fetch + SLACK > free:
        raise DiskError(
            f"{plan.wanted}: needs {plan.n_to_fetch / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free"
            f" in {place}; free some room, choose a smaller type, or set HF_HUB_CACHE"
        )


def fetch(plan: Plan, progress: Progress) -> Path:
    """Bring the files that are missing and return the path to open; what has come stays on errors.

    LibraryError if the hub fails or a file is damaged; DiskError if the disk takes no more.
    """
    refuse_full_disk(plan)
    done = 0

    def tell(n_bytes: int) -> None:
        progress(done + n_bytes, plan.n_bytes)

    with told(plan.wanted, endpoint()):
        _silence_library()
        for file in plan.missing:
            _fetch_file(plan, file, tell)
            tell(file.n_bytes)
            done += file.n_bytes
        _note_revision(plan)
    return plan.path


def _fetch_file(plan: Plan, file: RemoteFile, tell: Callable[[int], None]) -> None:
    from huggingface_hub import hf_hub_download, hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    repo, commit = plan.wanted.repo, plan.commit
    is_resumable = file.sha256 is not None and file.n_bytes <= MAX_RANGE
    if is_resumable and not (plan.blobs / str(file.sha256)).exists():
        url = hf_hub_url(repo, file.path, revision=commit, endpoint=endpoint())
        bring(url, build_hf_headers(library_name="junto"), file, plan.blobs, tell)
    # Finds the blob and links it into the snapshot; fetches small files itself.
    path = hf_hub_download(
        repo,
        file.path,
        revision=commit,
        cache_dir=plan.cache,
        endpoint=endpoint(),
        library_name="junto",
        etag_timeout=TIMEOUT_S,
    )
    if not is_resumable:
        verify(Path(path), file)


def _remote(sibling: "RepoSibling") -> RemoteFile:
    lfs = sibling.lfs
    sha256 = str(lfs["sha256"]) if lfs else None
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise LibraryError(f"{sibling.rfilename}: the hub tells {sha256!r} for its sha256")
    size = lfs["size"] if lfs else sibling.size
    git_sha1 = sibling.blob_id if sibling.blob_id and _COMMIT.fullmatch(sibling.blob_id) else None
    return RemoteFile(sibling.rfilename, int(size or 0), sha256, git_sha1)


def _note_revision(plan: Plan) -> None:
    """Say in the cache which commit the branch or tag was at, now that its files are here."""
    revision = plan.wanted.revision or "main"
    if not _COMMIT.fullmatch(revision):
        ref = plan.folder / "refs" / revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text(plan.commit, "utf-8")


def _silence_library() -> None:
    """Progress is shown by us, except for the files that the library fetches by Xet."""
    from huggingface_hub.utils import disable_progress_bars

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if not os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS"):
        disable_progress_bars("huggingface_hub.http_get")
