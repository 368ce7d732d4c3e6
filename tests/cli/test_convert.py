"""`junto convert`: options, the table at the end, and errors in one line."""

from pathlib import Path

import pytest
import typer

from junto.cli import main
from junto.cli.convert import n_bytes
from junto.cli.exit_code import ExitCode
from junto.formats.gguf import read_gguf
from tests.tiny.models import TINY


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_table_tells_types_sizes_and_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TINY["llama_tied"].write_gguf(tmp_path / "source.gguf")
    arguments = ["--type", "F16", "--keep", "attn_v=BF16", "--keep", "blk.1.attn_v.weight=F32"]
    assert main(["convert", str(source), str(tmp_path / "out.gguf"), *arguments]) == ExitCode.DONE
    made = read_gguf(tmp_path / "out.gguf")
    assert made.tensors["blk.0.attn_v.weight"].type.name == "BF16"
    assert made.tensors["blk.1.attn_v.weight"].type.name == "F32"
    table = lines(capsys.readouterr().out)
    assert table[0] == ["type", "tensors", "values", "MB", "bits/weight"]
    assert [row[0] for row in table[1:]] == ["F16", "F32", "BF16", "all", "wrote"]
    assert table[1][-1] == "16.00"
    assert table[4][1] == str(len(made.tensors))


def test_parts_and_join(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = TINY["llama_untied"].write_gguf(tmp_path / "source.gguf")
    parts = ["convert", str(source), str(tmp_path / "p.gguf"), "--split-max-size", "150k"]
    assert main(parts) == ExitCode.DONE
    first = sorted(tmp_path.glob("p-*.gguf"))[0]
    assert main(["convert", str(first), str(tmp_path / "j.gguf"), "--join"]) == ExitCode.DONE
    assert (tmp_path / "j.gguf").read_bytes() == source.read_bytes()
    assert f"wrote {first}" in capsys.readouterr().out


def test_errors_are_one_line_and_exit_codes_tell_usage_from_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = TINY["llama_tied"].write_gguf(tmp_path / "source.gguf")
    target = str(tmp_path / "out.gguf")
    for arguments, code, text in (
        ([str(source), target, "--type", "Q9"], ExitCode.ERROR, "type 'Q9' is unknown"),
        ([str(source), str(source)], ExitCode.ERROR, "exists already"),
        ([str(tmp_path / "none.gguf"), target], ExitCode.ERROR, "no such file"),
        ([str(source), target, "--keep", "x"], ExitCode.USAGE, "expected PATTERN=TYPE"),
        ([str(source), target, "--join", "--type", "F16"], ExitCode.USAGE, "--join copies"),
        ([str(source), target, "--split-max-size", "0"], ExitCode.USAGE, "such as 5G"),
    ):
        assert main(["convert", *arguments]) == code
        error = capsys.readouterr().err
        assert text in error
        assert len(error.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["source.gguf"]


def test_sizes_are_read_with_their_units() -> None:
    assert [n_bytes(t) for t in ("5G", "1.5m", "20 kb", "7")] == [5 * 10**9, 1_500_000, 20_000, 7]
    with pytest.raises(typer.BadParameter, match="expected a size"):
        n_bytes("five")
