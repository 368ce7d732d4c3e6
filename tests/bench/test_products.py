"""The table of products."""

import json

import pytest

from bench import products


def test_each_type_and_number_of_rows_has_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "N_EXPERT", 9)
    monkeypatch.setattr(products, "N_TOK", 3)
    monkeypatch.setattr(products, "N_COPY", 2)
    products.main(["--types", "Q4_K", "--rows", "1,3", "--rounds", "1", "--threads", "1"])
    head, *table, report = [line for line in capsys.readouterr().out.splitlines() if line]
    assert "1 threads, peak" in head
    names = [line.split("|")[1].strip() for line in table[2:]]
    assert names == ["Q4_K, 1 rows", "Q4_K, 3 rows", "Q4_K, experts"]
    for row in json.loads(report)["rows"]:
        assert 0 < row["share"] < 1.2
        assert row["gb_per_s"] > 0
