"""Record what llama.cpp's own rounding of activations costs on trained weights.

    python -m tests.oracle.rounding

For each file the mean Kullback-Leibler divergence (nats a token) of llama.cpp on the file from
llama.cpp on the file's dequantised float32 twin, which computes with float activations and which
our reference equals: SmolLM2-135M (Q4_1) on WikiText-2, and the demonstration models on text they
have not seen; the first 2,048 tokens of each in chunks of 512. Writes `tests/golden/rounding.json`.
"""

import tempfile
from pathlib import Path

import numpy as np

from tests.oracle import llama_cpp_oracle
from tests.oracle.smollm2 import readable_json, write_twin
from tests.tiny import rounding
from tests.tiny.random_weights import F32, I64


def logits(path: Path, ids: I64) -> list[F32]:
    """Logits of each chunk, run alone."""
    with llama_cpp_oracle.Model(path) as model:
        return [model.logits(chunk) for chunk in ids.reshape(-1, rounding.N_CHUNK)]


def token_ids(path: Path, text: str) -> I64:
    """The first ids of a text."""
    with llama_cpp_oracle.Model(path) as model:
        return np.array(model.tokenize(text)[: rounding.N_IDS], np.int64)


def main() -> None:
    """Write the golden."""
    divergence: dict[str, float] = {}
    for name, path in ((name, rounding.file_of(name)) for name in rounding.names()):
        ids = token_ids(path, rounding.text_of(name))
        with tempfile.TemporaryDirectory() as folder:
            exact = logits(write_twin(path, Path(folder) / "twin.gguf"), ids)
        rounded = logits(path, ids)
        pairs = zip(exact, rounded, strict=True)
        divergence[name] = float(np.mean([rounding.mean_kl(a, b) for a, b in pairs]))
        print(name, divergence[name])
    golden = {
        "command": "python -m tests.oracle.rounding",
        "versions": llama_cpp_oracle.versions(),
        "n_ids": rounding.N_IDS,
        "n_chunk": rounding.N_CHUNK,
        "mean_kl": divergence,
    }
    rounding.GOLDEN.write_text(readable_json(golden))


if __name__ == "__main__":
    main()
