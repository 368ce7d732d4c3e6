"""Errors are no worse than those of ggml_quantize_chunk, recorded and live."""

import json

import numpy as np
import pytest

from junto.quantize import QUANTIZED_TYPES, quantize
from tests.oracle import ggml_quantize
from tests.quantize.data_kinds import IMPORTANCES, KINDS, error

ERRORS = json.loads(ggml_quantize.GOLDEN.read_text())["errors"]
ROUNDING = 1 + 1e-6
"""Where both store the same values, the data itself may differ in a last bit between machines."""

DENORMAL = 1e-70
"""Sum of squares that only denormal values leave."""


def skip_without_ggml() -> None:
    try:
        ggml_quantize.library()
    except ImportError as error:
        pytest.skip(str(error))


def our_error(name: str, kind: str, importance: str) -> float:
    rows, weights = KINDS[kind](), IMPORTANCES[importance]()
    return error(name, quantize(name, rows, weights), rows, weights)


def test_every_type_and_kind_has_its_golden() -> None:
    assert set(QUANTIZED_TYPES) == set(ERRORS)
    for of_type in ERRORS.values():
        assert of_type.keys() == IMPORTANCES.keys()
        assert all(of_kind.keys() == KINDS.keys() for of_kind in of_type.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("importance", IMPORTANCES)
@pytest.mark.parametrize("name", QUANTIZED_TYPES)
def test_error_is_no_worse_than_ggml(name: str, importance: str, kind: str) -> None:
    """Sum over rows of w (x - q)^2, w the importance or 1: at most that of ggml."""
    theirs = ERRORS[name][importance][kind]
    if np.isfinite(theirs):
        assert our_error(name, kind, importance) <= theirs * ROUNDING


@pytest.mark.parametrize("name", [name for name in QUANTIZED_TYPES if name not in ("F16", "BF16")])
def test_error_is_below_ggml_on_normal_data(name: str) -> None:
    """A search that finds no more than the plain choice would pass above, but not here."""
    for importance in IMPORTANCES:
        ratio = our_error(name, "normal", importance) / ERRORS[name][importance]["normal"]
        assert ratio < 0.97


@pytest.mark.oracle
@pytest.mark.parametrize("name", QUANTIZED_TYPES)
def test_golden_is_what_ggml_leaves_now(name: str) -> None:
    skip_without_ggml()
    for importance in IMPORTANCES:
        for kind in KINDS:
            now = ggml_quantize.ggml_error(name, kind, importance)
            assert now == pytest.approx(ERRORS[name][importance][kind], rel=1e-3, abs=DENORMAL)


@pytest.mark.oracle
@pytest.mark.parametrize("name", QUANTIZED_TYPES)
def test_error_is_no_worse_than_ggml_on_fresh_data(name: str) -> None:
    skip_without_ggml()
    rng = np.random.default_rng()
    rows = (rng.standard_t(5, (31, 768)) * 0.03).astype(np.float32)
    for weights in (None, rng.gamma(0.7, 1.0, 768).astype(np.float32)):
        ours = quantize(name, rows, weights)
        theirs = np.empty_like(ours)
        ggml_quantize.quantize(name, rows, weights, theirs)
        ratio = error(name, ours, rows, weights) / error(name, theirs, rows, weights)
        assert ratio <= ROUNDING
