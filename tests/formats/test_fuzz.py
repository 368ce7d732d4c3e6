"""Damaged files: a reader parses them or raises FormatError, and nothing else.

Hypothesis looks for a failing edit and shrinks it; the campaigns, guided by coverage, go deeper.
`make fuzz` runs those for as long as one likes.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from junto.errors import FormatError
from junto.formats.gguf import read_gguf
from junto.formats.gguf_writer import write_gguf
from junto.formats.quants import DECODERS
from junto.formats.safetensors import read_safetensors
from junto.formats.tensor import Tensor
from tests.formats import fuzzing
from tests.formats.fuzzing import TARGETS, Campaign
from tests.formats.seeds import GGUF, N_DATA, SAFETENSORS

# Values at which sizes wrap, and small ones that pass for other counts, types and lengths.
FIELDS = st.sampled_from([0, 1, 7, 8, 9, 255, 2**31, 2**32 - 1, 2**61, 2**63, 2**64 - 1])
edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True), st.sampled_from([1, 4, 8]), FIELDS | st.integers(0, 255)
    ),
    min_size=1,
    max_size=3,
)
fuzz = settings(
    max_examples=300,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def edited(content: bytes, edits: list[tuple[float, int, int]]) -> bytes:
    raw = bytearray(content)
    for place, width, value in edits:
        start = int(place * len(raw))
        raw[start : start + width] = (value % 256**width).to_bytes(width, "little")
    return bytes(raw)


def refusal(path: Path, content: bytes, read: Callable[[Path], list[Tensor]]) -> str:
    """Read a file and all of its tensors; return the message if it is refused, else nothing."""
    path.write_bytes(content)
    try:
        tensors = read(path)
    except FormatError as error:
        return str(error)
    for tensor in tensors:
        assert tensor.data.nbytes == tensor.n_bytes
        assert tensor.type.name not in DECODERS or tensor.float32().shape == tensor.shape
    return ""


def is_one_short_line(message: str) -> bool:
    return "\n" not in message and len(message) < 1000


def gguf_tensors(path: Path) -> list[Tensor]:
    file = read_gguf(path)
    for value in file.metadata.values():
        if not isinstance(value, int | float | str):
            list(value)
    return list(file.tensors.values())


def safetensors_tensors(path: Path) -> list[Tensor]:
    return list(read_safetensors(path).tensors.values())


def test_seeds_are_sound(tmp_path: Path) -> None:
    assert refusal(tmp_path / "seed.gguf", GGUF, gguf_tensors) == ""
    assert refusal(tmp_path / "seed.safetensors", SAFETENSORS, safetensors_tensors) == ""


@fuzz
@given(edits)
def test_edited_gguf_parses_or_is_refused(
    tmp_path: Path, edits: list[tuple[float, int, int]]
) -> None:
    assert is_one_short_line(refusal(tmp_path / "x.gguf", edited(GGUF, edits), gguf_tensors))


@fuzz
@given(edits)
def test_edited_safetensors_parses_or_is_refused(
    tmp_path: Path, edits: list[tuple[float, int, int]]
) -> None:
    content = edited(SAFETENSORS, edits)
    assert is_one_short_line(refusal(tmp_path / "x.safetensors", content, safetensors_tensors))


def test_gguf_cut_anywhere_is_refused(tmp_path: Path) -> None:
    for n in range(len(GGUF)):
        assert refusal(tmp_path / "x.gguf", GGUF[:n], gguf_tensors), n


def test_safetensors_cut_anywhere_is_refused(tmp_path: Path) -> None:
    for n in range(len(SAFETENSORS)):
        assert refusal(tmp_path / "x.safetensors", SAFETENSORS[:n], safetensors_tensors), n


@pytest.mark.parametrize("value", [0x00, 0x80, 0xFF])
def test_every_single_byte_of_a_gguf_header_may_be_anything(tmp_path: Path, value: int) -> None:
    for at in range(len(GGUF) - N_DATA):
        content = GGUF[:at] + bytes([value]) + GGUF[at + 1 :]
        assert is_one_short_line(refusal(tmp_path / "x.gguf", content, gguf_tensors)), at


N_INPUT = 1500


@pytest.mark.parametrize("name", TARGETS)
def test_short_campaign_finds_nothing(name: str, tmp_path: Path) -> None:
    campaign = Campaign(name, tmp_path, seed=20)
    for _ in range(N_INPUT):
        campaign.step()
    assert [reason for _, reason in campaign.failures] == []
    assert N_INPUT // 50 < campaign.n_read < campaign.n_tried - N_INPUT // 50
    assert len(campaign.corpus) > 2 * len(TARGETS[name].seeds), "guided by what inputs reach"


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (KeyError("k"), "KeyError: 'k'"),
        (MemoryError(), "MemoryError"),
        (RecursionError(), "RecursionError"),
        (FormatError("two\nlines"), "a message of 9 characters"),
        (FormatError("x" * 1001), "a message of 1001 characters"),
    ],
)
def test_campaign_notices_what_may_not_be(
    fault: Exception, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = Campaign("gguf", tmp_path, seed=1)

    def read_gguf(path: Path) -> None:
        raise fault

    monkeypatch.setattr(fuzzing, "read_gguf", read_gguf)
    campaign.step()
    ((content, reason),) = campaign.failures
    assert content == (tmp_path / "x.gguf").read_bytes()
    assert shown in reason


def test_campaign_notices_a_file_that_changes_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = Campaign("gguf", tmp_path, seed=1)
    monkeypatch.setattr(fuzzing, "write_gguf", lambda path, values, t: write_gguf(path, {}, t))
    for _ in range(300):
        campaign.step()
    assert {reason.splitlines()[-1] for _, reason in campaign.failures} == (
        {"AssertionError: metadata changed when it was written"}
    )


def test_same_seed_tries_the_same_inputs(tmp_path: Path) -> None:
    last = []
    for name in "ab":
        campaign = Campaign("safetensors", tmp_path / name, seed=3)
        for _ in range(50):
            campaign.step()
        last.append((tmp_path / name / "x.safetensors").read_bytes())
    assert last[0] == last[1]
