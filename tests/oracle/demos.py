"""Record what transformers and llama.cpp make of the demonstration models.

    python -m tests.oracle.demos --exports FOLDER

FOLDER holds one checkpoint a model, FOLDER/NAME, as `tools.train_demo.export` writes it; the files
in the box were converted from these. Writes `tests/golden/demos.json`: for each model the mean
negative log likelihood (nats) of each of 16 chunks of 512 held-out tokens (`tests.demos.held_out`)

transformers    of the checkpoint, in float32
float32_twin    by llama.cpp, of the file in the box with every tensor dequantised
file            by llama.cpp, of the file itself: activations rounded to 8 bits

Float32 KV cache, no flash attention, no BOS. llama.cpp rounds the ends of YaRN's ramp, which
concerns gpt-oss.
"""

import argparse
import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from junto.library import demos
from tests.demos.held_out import GOLDEN, N_CHUNK, N_IDS, TEXT
from tests.oracle import llama_cpp_oracle, transformers_oracle
from tests.oracle.smollm2 import chunk_losses, readable_json, write_twin
from tests.tiny.smollm2 import sha256_of_ids


def of_model(name: str, checkpoint: Path) -> dict[str, Any]:
    """The golden of one model."""
    path = demos.path_of(name)
    with llama_cpp_oracle.Model(path) as model:
        ids = np.array(model.tokenize(TEXT.read_text())[:N_IDS], np.int64)
        of_file = chunk_losses(model.logits, ids)
    with tempfile.TemporaryDirectory() as folder:
        twin = write_twin(path, Path(folder) / "twin.gguf")
        with llama_cpp_oracle.Model(twin) as model:
            of_twin = chunk_losses(model.logits, ids)
    network = transformers_oracle.load(checkpoint)
    of_checkpoint = chunk_losses(lambda chunk: transformers_oracle.logits(network, chunk), ids)
    found = {"transformers": of_checkpoint, "float32_twin": of_twin, "file": of_file}
    print(name, {key: float(np.exp(np.mean(value))) for key, value in found.items()})
    return {
        "file_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "ids_sha256": sha256_of_ids(ids),
        "nll_per_chunk": found,
    }


def main() -> None:
    """Write the golden."""
    options = argparse.ArgumentParser(prog="python -m tests.oracle.demos")
    options.add_argument("--exports", type=Path, required=True, help="folder of checkpoints")
    exports = options.parse_args().exports
    golden = {
        "command": "python -m tests.oracle.demos --exports FOLDER",
        "versions": {**llama_cpp_oracle.versions(), **transformers_oracle.versions()},
        "n_ids": N_IDS,
        "n_chunk": N_CHUNK,
        "models": {name: of_model(name, exports / name) for name in demos.NAMES},
    }
    GOLDEN.write_text(readable_json(golden))


if __name__ == "__main__":
    main()
