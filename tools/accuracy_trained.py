"""The tables of docs/accuracy.md on trained weights that come with junto, or as a package.

Called by `tools/accuracy.py`. A checkpoint that a demonstration model was converted from is read
where the environment names its folder (`tests.demos.test_demos.CHECKPOINTS`).
"""

import os
from collections.abc import Iterator
from pathlib import Path

import junto
from junto.library import demos
from tests.demos import held_out
from tests.demos.test_demos import CHECKPOINTS
from tests.models.smollm2_run import chunk_losses, perplexity
from tests.models.test_goldens import load_as_llama_cpp
from tests.models.test_rounding import mean_kl
from tests.tiny import rounding

Row = tuple[str, str, str]


def demonstration_models() -> Iterator[tuple[str, list[Row]]]:
    """For each model perplexities on held-out text, and what they are to the float32 checkpoint."""
    for name in demos.NAMES:
        nll = held_out.golden(name)["nll_per_chunk"]
        exact = perplexity(nll["transformers"])
        path = demos.path_of(name)
        shipped = junto.load(path)
        ids = held_out.ids(shipped, name)

        def row(label: str, losses: list[float], exact: float = exact) -> Row:
            value = perplexity(losses)
            return label, f"{value:.4f}", f"{value / exact - 1:+.3%}"

        rows = [row("checkpoint, transformers in float32", nll["transformers"])]
        if CHECKPOINTS in os.environ:
            folder = Path(os.environ[CHECKPOINTS]) / name
            checkpoint = junto.load(folder, backend="reference")
            rows.append(row("checkpoint, junto reference", chunk_losses(checkpoint, ids)))
        reference = load_as_llama_cpp(path)
        rows += [
            row("file's float32 twin, llama.cpp", nll["float32_twin"]),
            row("file, junto reference, YaRN as llama.cpp's", chunk_losses(reference, ids)),
            row("file, llama.cpp", nll["file"]),
            row("file, junto cpu", chunk_losses(shipped, ids)),
        ]
        yield name, rows


def rounding_of_activations() -> list[Row]:
    """Mean KL of 8-bit activations from float ones: ours, and llama.cpp's."""
    golden = rounding.golden()
    return [
        (f"`{name}`", f"{mean_kl(rounding.file_of(name), rounding.text_of(name)):.2e}", f"{kl:.2e}")
        for name, kl in golden.items()
    ]
