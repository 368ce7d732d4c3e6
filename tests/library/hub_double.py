"""A hub on this machine: what huggingface_hub asks of the real one, and the faults it may show.

GET  /api/models/REPO/revision/REV       files, sizes and checksums of a commit
HEAD, GET /REPO/resolve/REV/FILE         the file, in ranges; large ones by a redirect on request
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from junto.library import demos

COMMIT = "1f" * 20
LARGE = (".gguf", ".safetensors")


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    first_byte: int
    token: str | None
    host: str


@dataclass
class HubDouble:
    """Repositories by name, their files by path, and faults to show.

    cuts      after so many bytes of a file the connection breaks, one for each GET to come
    spoilt    files of which the last byte comes changed
    gated     repositories whose files are refused
    redirect  large files come from another host name of this server
    """

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    spoilt: set[str] = field(default_factory=set)
    gated: set[str] = field(default_factory=set)
    redirect: bool = False
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    def first_bytes(self, file: str) -> list[int]:
        """Where each GET of a file began."""
        gets = [a for a in self.asked if a.method == "GET" and a.path.endswith(f"/{file}")]
        return [a.first_byte for a in gets]


@contextmanager
def serving(hub: HubDouble) -> Iterator[str]:
    """Serve a hub and give its address."""
    from huggingface_hub.utils import close_session

    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{hub.port}"
    finally:
        close_session()
        server.shutdown()
        server.server_close()
        thread.join()


def isolate(monkeypatch: pytest.MonkeyPatch, folder: Path, address: str = "") -> Path:
    """Let no model, token or cache of the machine be seen; returns the hub's cache."""
    monkeypatch.setenv("HOME", str(folder / "home"))
    for name in ("HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "JUNTO_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    places = {"HF_HOME": "hf", "HF_HUB_CACHE": "hf/hub", "OLLAMA_MODELS": "ollama"}
    for name, place in places.items() | {"LLAMA_CACHE": "llama"}.items():
        monkeypatch.setenv(name, str(folder / place))
    monkeypatch.setattr(demos, "NAMES", ())
    monkeypatch.setenv("HF_ENDPOINT", address or "http://127.0.0.1:9")
    return folder / "hf" / "hub"


def sibling(path: str, data: bytes) -> dict[str, Any]:
    """A file as the hub lists it."""
    git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
    entry = {"rfilename": path, "size": len(data), "blobId": git}
    if not path.endswith(LARGE):
        return entry
    sha256 = hashlib.sha256(data).hexdigest()
    return entry | {"lfs": {"sha256": sha256, "size": len(data), "pointerSize": 130}}


class _Handler(BaseHTTPRequestHandler):
    hub: HubDouble
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        first = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        token, host = self.headers.get("Authorization"), self.headers["Host"]
        self.hub.asked.append(Asked(self.command, path, first, token, host))
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            self._tell_files("/".join(parts[2:4]), parts[5])
        else:
            self._give("/".join(parts[:2]), parts[3], "/".join(parts[4:]), first)

    def _tell_files(self, repo: str, revision: str) -> None:
        if self._is_refused(repo, revision):
            return
        files = [sibling(path, data) for path, data in self.hub.repos[repo].items()]
        body = json.dumps({"id": repo, "sha": COMMIT, "siblings": files}).encode()
        self._send(200, {"Content-Type": "application/json"}, body)

    def _is_refused(self, repo: str, revision: str) -> bool:
        if repo not in self.hub.repos:
            self._send(404, {"X-Error-Code": "RepoNotFound"}, b"")
        elif revision not in ("main", "v1", COMMIT):
            self._send(404, {"X-Error-Code": "RevisionNotFound"}, b"")
        else:
            return False
        return True

    def _give(self, repo: str, revision: str, path: str, first: int) -> None:
        if self._is_refused(repo, revision):
            return
        if repo in self.hub.gated:
            self._send(403, {"X-Error-Code": "GatedRepo"}, b"")
            return
        data = self.hub.repos[repo][path]
        listed = sibling(path, data)
        checksum = listed["lfs"]["sha256"] if "lfs" in listed else listed["blobId"]
        headers = {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{checksum}"',
            "X-Linked-Etag": f'"{checksum}"',
            "X-Linked-Size": str(len(data)),
        }
        if self.hub.redirect and path.endswith(LARGE) and self.headers["Host"][0] == "1":
            location = f"http://localhost:{self.hub.port}{self.path}"
            self._send(302, headers | {"Location": location}, b"")
            return
        if path in self.hub.spoilt:
            data = data[:-1] + bytes([data[-1] ^ 1])
        self._send_range(headers, data, first)

    def _send_range(self, headers: dict[str, str], data: bytes, first: int) -> None:
        status = 206 if "Range" in self.headers else 200
        if status == 206:
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        cut = self.hub.cuts.pop(0) if self.command == "GET" and self.hub.cuts else None
        self._send(status, headers, data[first:], cut)

    def _send(
        self, status: int, headers: dict[str, str], body: bytes, cut: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True
