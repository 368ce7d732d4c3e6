"""How far transformers and llama.cpp are from each other on the tiny models, as a table.

    python -m tests.oracle.agreement

The same random weights as safetensors in transformers and as float32 GGUF in llama.cpp: if both
agree, the conversion that writes the GGUF files is right. gpt-oss runs with its YaRN range rounded
in transformers too, since llama.cpp always rounds it; its unrounded column shows how much that is.
"""

import tempfile
from pathlib import Path
from typing import Any

from tests.oracle import llama_cpp_oracle, transformers_oracle
from tests.tiny import goldens
from tests.tiny.models import TINY, TinyModel
from tests.tiny.weights import text_config

VARIANTS: dict[str, dict[str, Any]] = {
    "": {},
    ", gate and up fused": {"fuse_gate_up": True},
    ", draft layer": {"draft": "shipped"},
}
"""A draft layer that is only in metadata is left out: llama.cpp refuses to load it."""


def variants(tiny: TinyModel) -> dict[str, dict[str, Any]]:
    """The GGUF forms a model has, by a name to print."""
    text = text_config(tiny.config)
    keys = [""]
    if "moe_intermediate_size" in text:
        keys.append(", gate and up fused")
    if "mtp_num_hidden_layers" in text:
        keys.append(", draft layer")
    return {key: VARIANTS[key] for key in keys}


def transformers_golden(tiny: TinyModel, folder: Path, truncate: bool | None) -> goldens.Golden:
    """Rows that transformers computes now; `truncate` rounds gpt-oss's YaRN range."""
    model = transformers_oracle.load(tiny.write_safetensors(folder), yarn_truncate=truncate)
    tokens = tiny.tokens(max(goldens.LENGTHS))
    return goldens.record(lambda ids: transformers_oracle.logits(model, ids), tokens, {})


def compare(tiny: TinyModel, folder: Path) -> list[tuple[str, dict[int, float]]]:
    """Rows of the table: what was compared, and the error at each length."""
    is_gpt_oss = tiny.config["model_type"] == "gpt_oss"
    truncated = transformers_golden(tiny, folder / "hf", True if is_gpt_oss else None)
    out = []
    for label, options in variants(tiny).items():
        path = tiny.write_gguf(folder / "tiny.gguf", dequantized=True, **options)
        with llama_cpp_oracle.Model(path) as model:
            out.append((tiny.name + label, goldens.errors(truncated, model.logits)))
            if is_gpt_oss:
                exact = goldens.load("transformers", tiny.golden)
                label = f"{tiny.name}, range not rounded"
                out.append((label, goldens.errors(exact, model.logits)))
    return out


def main() -> None:
    """Print the table."""
    print("| model | " + " | ".join(str(n) for n in goldens.LENGTHS) + " |")
    print("|---" * (1 + len(goldens.LENGTHS)) + "|")
    for tiny in TINY.values():
        if tiny.name.endswith("_twin"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for label, errors in compare(tiny, Path(folder)):
                print(f"| {label} | " + " | ".join(f"{e:.0e}" for e in errors.values()) + " |")


if __name__ == "__main__":
    main()
