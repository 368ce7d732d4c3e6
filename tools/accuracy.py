"""Print the tables of docs/accuracy.md: our logits against the oracles' and against themselves.

    make accuracy            everything, about ten minutes on two cores
    python tools/accuracy.py --quick     tiny models only, half a minute

The oracles' numbers are the goldens in tests/golden; `make oracle` computes them live. Errors are
the largest |difference| over the largest |logit| of the run.
"""

import argparse
import platform
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import junto
from junto.ops.views import F32
from tests.models import smollm2_run
from tests.models.real_layer_run import layer_error
from tests.models.test_cpu_backend import FLOAT_MODELS, LEVELS, load
from tests.models.test_goldens import load_as_llama_cpp
from tests.tiny import goldens
from tests.tiny import smollm2 as smollm2_data
from tests.tiny.goldens import LENGTHS
from tests.tiny.models import DRAFTING, MIXES, MIXES_WITHOUT_GOLDEN, TINY
from tests.tiny.real_layers import REAL_LAYERS
from tests.tiny.rounding import mean_kl
from tools import accuracy_trained


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def worst(errors: dict[int, float]) -> str:
    """The largest error, and the length at which it was met."""
    length = max(errors, key=errors.__getitem__)
    return f"{errors[length]:.1e} ({length})"


def tiny_models(folder: Path) -> None:
    """Tiny random models against both oracles, from both kinds of file."""
    print(f"Lengths: {', '.join(map(str, LENGTHS))} tokens; the worst length in brackets.\n")
    rows = []
    for name, tiny in TINY.items():
        safetensors = junto.load(tiny.write_safetensors(folder / name), backend="reference")
        path = tiny.write_gguf(folder / f"{name}.gguf")
        gguf, as_llama_cpp = junto.load(path, backend="reference"), load_as_llama_cpp(path)
        transformers = goldens.load("transformers", tiny.golden)
        llama_cpp = goldens.load("llama_cpp", tiny.golden)
        rows.append(
            (
                f"`{name}`",
                worst(goldens.errors(transformers, safetensors.logits)),
                worst(goldens.errors(transformers, gguf.logits)),
                worst(goldens.errors(llama_cpp, as_llama_cpp.logits)),
            )
        )
    head = ("model", "safetensors, transformers", "GGUF, transformers", "GGUF, llama.cpp")
    table(head, rows)
    quantised = []
    for name, mix in MIXES.items():
        model = load_as_llama_cpp(mix.write_gguf(folder / f"{name}.gguf"))
        golden = goldens.load("llama_cpp", name)
        quantised.append((f"`{name}`", worst(goldens.errors(golden, model.logits))))
    table(("quantised GGUF", "llama.cpp on its float32 twin"), quantised)


def draft_heads(folder: Path) -> None:
    """Draft heads of tiny random models, from GGUF, by both backends."""
    rows = []
    for name, tiny in DRAFTING.items():
        path = tiny.write_gguf(folder / f"{name}.draft.gguf", draft="shipped")
        golden = goldens.load("llama_cpp", f"draft/{name}")
        slow = junto.load(path, backend="reference", draft=True)
        fast = junto.load(path, kv="f32", draft=True)
        errors = (goldens.errors(golden, goldens.of_draft(m.draft_logits)) for m in (slow, fast))
        rows.append((f"`{name}`", *map(worst, errors)))
    table(("draft head, GGUF, llama.cpp", "reference", "cpu"), rows)


def truths(folder: Path) -> None:
    """What needs no oracle: the same tokens, cut, batched and decoded in other ways."""
    rows = []
    for name in ("qwen35moe_ratio4", "gpt_oss_window32", "llama_untied"):
        model = junto.load(
            TINY[name].write_gguf(folder / f"{name}.truth.gguf"), backend="reference"
        )
        ids = TINY[name].tokens(300).tolist()
        whole = model.logits(ids)
        rows.append(
            (
                f"`{name}`",
                *(_apart(whole, _fed(model, ids, [size] * 300)) for size in (1, 63, 64, 65)),
                _apart(whole, _fed(model, ids, [200, *[1] * 100])),
                _apart(whole[-1:], _beside_others(model, ids)),
            )
        )
    head = ("model", "by 1", "by 63", "by 64", "by 65", "prefill + decode", "in a batch")
    table(head, rows)


def _fed(model: junto.Model, ids: list[int], sizes: Sequence[int]) -> F32:
    slot, rows, start = model.runner.cache.open(), [], 0
    for size in sizes:
        if start < len(ids):
            part = ids[start : start + size]
            rows.append(model.runner.step([(slot, part)], all_logits=True))
            start += size
    model.runner.cache.close(slot)
    return np.concatenate(rows)


def _beside_others(model: junto.Model, ids: list[int]) -> F32:
    slots = [model.runner.cache.open() for _ in range(3)]
    logits = model.runner.step([(slots[0], ids[:7]), (slots[1], ids), (slots[2], ids[5:90])])
    for slot in slots:
        model.runner.cache.close(slot)
    return logits[1:2]


def _apart(whole: F32, other: F32) -> str:
    return f"{np.abs(whole - other).max() / np.abs(whole).max():.1e}"


def real_layers() -> None:
    """Layers of real size against transformers."""
    rows = ((f"`{name}`", f"{layer_error(layer):.1e}") for name, layer in REAL_LAYERS.items())
    table(("layer of real size", "transformers"), rows)


def cpu_backend(folder: Path) -> None:
    """The cpu backend against the reference: float files, then quantised ones."""
    rows = []
    for name in FLOAT_MODELS:
        path, ids = TINY[name].write_gguf(folder / f"{name}.cpu.gguf"), TINY[name].tokens(200)
        expected = junto.load(path, backend="reference").logits(ids)
        levels = (_apart(expected, load(path, level).logits(ids)) for level in LEVELS)
        rows.append((f"`{name}`", *levels))
    table(("float32 file, cpu against reference", *LEVELS), rows)
    rows = []
    for name, mix in {**MIXES, **MIXES_WITHOUT_GOLDEN}.items():
        path, ids = mix.write_gguf(folder / f"{name}.cpu.gguf"), mix.model.tokens(200)
        expected = junto.load(path, backend="reference").logits(ids)
        kl = (mean_kl(expected, load(path, level).logits(ids)) for level in LEVELS)
        rows.append((f"`{name}`", *(f"{value:.1e}" for value in kl)))
    table(("quantised file, mean KL of cpu from reference", *LEVELS), rows)


def smollm2() -> None:
    """Real weights against llama.cpp."""
    model = junto.load(smollm2_data.model_path(), backend="reference")
    differences = smollm2_run.greedy_differences(model)
    print(f"Greedy tokens that differ from llama.cpp's, of 5 x 200: {len(differences)}\n")
    for d in differences:
        print(f"- {d.prompt[:40]!r}, step {d.step}: its two best logits are {d.gap} apart")
    ids = smollm2_run.wikitext_ids(model)
    ours = smollm2_run.perplexity(smollm2_run.chunk_losses(model, ids))
    theirs = smollm2_data.golden()["wikitext"]["perplexity"]
    rows = [("junto reference, the Q4_1 file", f"{ours:.4f}", "")]
    for kv in ("f32", "f16"):
        fast = junto.load(smollm2_data.model_path(), backend="cpu", kv=kv)
        value = smollm2_run.perplexity(smollm2_run.chunk_losses(fast, ids))
        rows.append(
            (f"junto cpu, kv {kv}, the Q4_1 file", f"{value:.4f}", f"{value / ours - 1:+.3%}")
        )
    for what, label in (("float32_twin", "its float32 twin"), ("q4_1_file", "the file itself")):
        rows.append(
            (f"llama.cpp, {label}", f"{theirs[what]:.4f}", f"{theirs[what] / ours - 1:+.3%}")
        )
    table(("WikiText-2, first 8,192 tokens, context 512", "perplexity", "to ours"), rows)


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny models only")
    quick = parser.parse_args().quick
    print(f"junto {junto.__version__}, numpy {np.__version__}, {platform.machine()}\n")
    with tempfile.TemporaryDirectory() as folder:
        tiny_models(Path(folder))
        draft_heads(Path(folder))
        truths(Path(folder))
        cpu_backend(Path(folder))
    for name, rows in accuracy_trained.demonstration_models():
        table((f"demo:{name}, 8,192 held-out tokens, context 512", "perplexity", ""), rows)
    if not quick:
        real_layers()
        smollm2()
        rows = accuracy_trained.rounding_of_activations()
        table(("mean KL of the file from float activations", "junto cpu", "llama.cpp"), rows)


if __name__ == "__main__":
    main()
