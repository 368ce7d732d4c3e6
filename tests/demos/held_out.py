"""Text that the demonstration models have not seen, and what the oracles make of it.

The text is the beginning of the held-out book; its first 8,192 tokens are read in chunks of 512,
each alone, scored at positions 1 and on. The golden is `tests.oracle.demos`'s. Needs no oracle.
"""

import json
from typing import Any

import numpy as np

import junto
from tests.data_dir import REPOSITORY
from tests.tiny.goldens import FOLDER
from tests.tiny.random_weights import I64
from tests.tiny.smollm2 import sha256_of_ids

TEXT = REPOSITORY / "tests" / "data" / "text" / "pinocchio.txt"
GOLDEN = FOLDER / "demos.json"
N_IDS, N_CHUNK = 8192, 512


def golden(name: str) -> dict[str, Any]:
    """What transformers and llama.cpp computed for a model."""
    read: dict[str, Any] = json.loads(GOLDEN.read_text())["models"][name]
    return read


def ids(model: junto.Model, name: str) -> I64:
    """The ids of the text by our tokenizer, checked by their hash."""
    found = np.array(model.text.tokenizer.encode(TEXT.read_text(), special=False)[:N_IDS], np.int64)
    assert sha256_of_ids(found) == golden(name)["ids_sha256"]
    return found
