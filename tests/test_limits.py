"""What `make limits` measures: tests bound only hangs and waste, at five times the promise."""

import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data_dir import find
from tools import limits


@pytest.fixture(params=limits.VOCABULARIES)
def vocabulary(request: pytest.FixtureRequest) -> Iterator[Path]:
    with limits.unpacked(find(f"tokenizers/{request.param}.xz")) as path:
        yield path


def is_within_five_times(figure: limits.Figure) -> bool:
    assert figure.bound is not None
    return figure.value <= 5 * figure.bound


def test_real_vocabularies_open_without_hanging_or_filling_memory(vocabulary: Path) -> None:
    figures = limits.vocabulary_figures(vocabulary, n_runs=1)
    assert [figure.unit for figure in figures] == ["s", "MiB"]
    assert all(is_within_five_times(figure) for figure in figures), figures


@pytest.mark.parametrize("name", limits.TOKENIZERS)
def test_real_tokenizers_load_without_hanging(name: str) -> None:
    with limits.unpacked(find(f"tokenizers/{name}.xz")) as path:
        figure = limits.tokenizer_figure(path, n_runs=1)
    assert is_within_five_times(figure), figure


def test_import_is_measured_against_its_bound() -> None:
    assert is_within_five_times(limits.import_time(n_runs=1))


def test_peak_memory_is_that_of_the_new_interpreter_alone() -> None:
    """A parent of 200 MiB must not show in the figure of its child, as it does in getrusage."""
    ballast = b"x" * (200 << 20)
    (peak,) = limits.medians(limits.PRINT_PEAK, n_runs=1)
    assert len(ballast) > 100 << 20 > peak * (1 << 20) > 0


def test_figure_is_broken_only_beyond_its_bound() -> None:
    assert limits.Figure("at the bound", 0.3, "s", 0.3).is_kept
    assert not limits.Figure("beyond it", 0.31, "s", 0.3).is_kept
    assert limits.Figure("nothing promised", 9.0, "s", None).is_kept


def test_archive_is_unpacked_for_the_time_of_its_use(tmp_path: Path) -> None:
    (tmp_path / "small.gguf.xz").write_bytes(lzma.compress(b"content"))
    with limits.unpacked(tmp_path / "small.gguf.xz") as path:
        assert (path.name, path.read_bytes()) == ("small.gguf", b"content")
    assert not path.exists()
