"""One layer of each kind at the sizes of Qwen3.5-35B-A3B and gpt-oss-20b, against transformers.

Goldens: `python -m tests.oracle.make_goldens` (rows of the layer's output, random weights from the
counter-based generator, 3.2 GB each).
"""

import pytest

from tests.models.real_layer_run import layer_error
from tests.tiny.real_layers import REAL_LAYERS

BOUND = 2e-4
"""Largest error over the largest |output|, as for the tiny models."""


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_LAYERS)
def test_a_layer_of_real_size_equals_transformers(name: str) -> None:
    assert layer_error(REAL_LAYERS[name]) < BOUND
