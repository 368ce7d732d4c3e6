"""`junto pull`, `junto list`, `junto rm`, and names where a MODEL is taken."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import junto
from junto.cli import main
from junto.library import hub
from tests.cli.fake_model import talking_model
from tests.library.hub_double import HubDouble, isolate, serving

Capture = pytest.CaptureFixture[str]
REPO = "ggml-org/gpt-oss-20b-GGUF"
FILE = "gpt-oss-20b-MXFP4.gguf"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A hub double that has one model, and an empty cache."""
    with serving(HubDouble({REPO: {FILE: b"GGUF" * 101}})) as address:
        yield isolate(monkeypatch, tmp_path, address)


def test_pull_prints_the_path_and_tells_the_rest_on_stderr(cache: Path, capsys: Capture) -> None:
    assert main(["pull", "gpt-oss:20b"]) == 0
    out, err = capsys.readouterr()
    assert Path(out.rstrip("\n")).read_bytes() == b"GGUF" * 101
    assert err == (f"{REPO} (1f1f1f1f1f1f): {FILE}, 0.00 GB to fetch, into {cache}\n")
    assert main(["pull", "gpt-oss:20b"]) == 0
    assert capsys.readouterr().err.endswith(f"{FILE}, already here\n")


def test_ctrl_c_says_that_what_has_come_is_kept(
    cache: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(hub, "fetch", interrupt)
    assert main(["pull", "gpt-oss:20b"]) == 130
    assert capsys.readouterr().err.endswith("is kept, the same command goes on\n")


def test_a_pulled_model_runs_by_its_name(
    cache: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = talking_model()
    monkeypatch.setattr(junto, "load", model.load)
    assert main(["run", "gpt-oss:20b", "-p", "x"]) == 1
    assert "get it with: junto pull gpt-oss:20b" in capsys.readouterr().err
    assert main(["pull", "gpt-oss:20b"]) == 0
    for name in ("gpt-oss:20b", f"{REPO}:mxfp4", f"{REPO}/{FILE}"):
        assert main(["run", name, "-p", "x"]) == 0
    assert [path.name for path, _ in model.loaded] == [FILE] * 3


def test_list_shows_names_for_people_and_programs(cache: Path, capsys: Capture) -> None:
    assert main(["list"]) == 0
    assert "junto pull gpt-oss:20b" in capsys.readouterr().out
    main(["pull", "gpt-oss:20b"])
    path = capsys.readouterr().out.strip()
    assert main(["list"]) == 0
    assert f"| {REPO}:MXFP4 | MXFP4 | hub | 0.00 |" in capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)
    told = {"name": f"{REPO}:MXFP4", "type": "MXFP4", "origin": "hub", "n_bytes": 404}
    assert model == told | {"path": path, "files": [path]}


def test_rm_asks_unless_told_not_to(
    cache: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["pull", "gpt-oss:20b"])
    path = Path(capsys.readouterr().out.strip())
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    assert main(["rm", "gpt-oss:20b"]) == 2
    assert "--yes removes without asking" in capsys.readouterr().err
    assert path.exists()
    assert main(["rm", "gpt-oss:20b", "--yes"]) == 0
    assert "removed; 0.00 GB are free" in capsys.readouterr().out
    assert not path.exists()
    assert main(["rm", "gpt-oss:20b", "--yes"]) == 1
    assert "no model of that name is here; see junto list" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "code", "stays"), [("n", 130, True), ("y", 0, False)])
def test_rm_does_what_is_answered(
    answer: str,
    code: int,
    stays: bool,
    cache: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main(["pull", "gpt-oss:20b"])
    path = Path(capsys.readouterr().out.strip())
    stdin = io.StringIO(f"{answer}\n")
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["rm", "gpt-oss:20b"]) == code
    assert path.exists() == stays


def test_pull_of_nonsense_lists_what_is_expected(cache: Path, capsys: Capture) -> None:
    assert main(["pull", "nonsense"]) == 1
    assert "expected ORG/REPO" in capsys.readouterr().err
