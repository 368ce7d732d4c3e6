"""Record the logits of the tiny models by transformers and by llama.cpp, and of their draft heads.

    python -m tests.oracle.make_goldens transformers
    python -m tests.oracle.make_goldens llama_cpp
    python -m tests.oracle.make_goldens train_demo
    python -m tests.oracle.make_goldens llama_cpp qwen35moe_q4_k      (only some)

Draft heads are recorded as `draft/<name>`, from all that draft: llama.cpp runs them in a context of
its own, `train_demo` is the torch network that trains the demo model.

Run in an environment with the oracles, from the root of the repository. Writes
`tests/golden/<oracle>/<name>.npz`.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.tiny import goldens
from tests.tiny.models import DRAFTING, MIXES, TINY


def by_transformers(name: str, folder: Path) -> goldens.Golden:
    """Logits of the safetensors form."""
    from tests.oracle import transformers_oracle

    tiny = TINY[name]
    model = transformers_oracle.load(tiny.write_safetensors(folder / name))
    tokens = tiny.tokens(max(goldens.LENGTHS))
    made_by = provenance("transformers", name, transformers_oracle.versions())
    return goldens.record(lambda ids: transformers_oracle.logits(model, ids), tokens, made_by)


def by_llama_cpp(name: str, folder: Path) -> goldens.Golden:
    """Logits of the float32 GGUF: of the model, or of the dequantised twin of a mix."""
    from tests.oracle import llama_cpp_oracle

    if name.startswith(DRAFT):
        return draft_by_llama_cpp(name, folder)
    path = folder / f"{name}.gguf"
    if name in MIXES:
        MIXES[name].write_twin(path)
    else:
        TINY[name].write_gguf(path, dequantized=True)
    tiny = MIXES[name].model if name in MIXES else TINY[name]
    tokens = tiny.tokens(max(goldens.LENGTHS))
    made_by = provenance("llama_cpp", name, llama_cpp_oracle.versions())
    with llama_cpp_oracle.Model(path) as model:
        return goldens.record(model.logits, tokens, made_by)


def draft_by_llama_cpp(name: str, folder: Path) -> goldens.Golden:
    """Logits of the draft head of a float32 GGUF."""
    from tests.oracle import llama_cpp_draft, llama_cpp_oracle

    tiny = DRAFTING[name.removeprefix(DRAFT)]
    path = tiny.write_gguf(folder / "tiny.gguf", draft="shipped")
    made_by = provenance("llama_cpp", name, llama_cpp_oracle.versions())
    with llama_cpp_draft.DraftModel(path) as model:
        draft = goldens.of_draft(model.draft_logits)
        return goldens.record(draft, tiny.tokens(max(goldens.LENGTHS)), made_by)


def by_train_demo(name: str, folder: Path) -> goldens.Golden:
    """Logits of the draft head of the safetensors form."""
    from tests.oracle import train_demo_oracle

    tiny = DRAFTING[name.removeprefix(DRAFT)]
    network = train_demo_oracle.network(tiny)
    draft = goldens.of_draft(lambda ids: train_demo_oracle.draft_logits(network, ids))
    made_by = provenance("train_demo", name, train_demo_oracle.versions())
    return goldens.record(draft, tiny.tokens(max(goldens.LENGTHS)), made_by)


DRAFT = "draft/"
MAKERS = {"transformers": by_transformers, "llama_cpp": by_llama_cpp, "train_demo": by_train_demo}


def provenance(oracle: str, name: str, versions: Mapping[str, str]) -> dict[str, str]:
    """The command and the versions that made a golden."""
    command = f"python -m tests.oracle.make_goldens {oracle} {name}"
    return {"command": command, "numpy": np.__version__, **versions}


def names(oracle: str) -> list[str]:
    """What has goldens: every model once, and for llama.cpp the quantised mixes and the drafts."""
    if oracle == "train_demo":
        return [f"{DRAFT}qwen35moe_ratio2"]
    models = [name for name in TINY if not name.endswith("_twin")]
    drafts = [DRAFT + name for name in DRAFTING]
    return models + ([*MIXES, *drafts] if oracle == "llama_cpp" else [])


def main() -> None:
    """Record what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("oracle", choices=list(MAKERS))
    parser.add_argument("names", nargs="*", help="models or mixes; all of them if none is named")
    arguments = parser.parse_args()
    for name in arguments.names or names(arguments.oracle):
        with tempfile.TemporaryDirectory() as folder:
            made = MAKERS[arguments.oracle](name, Path(folder))
            goldens.save(arguments.oracle, name, made)
        n_bytes = goldens.path(arguments.oracle, name).stat().st_size
        print(f"{arguments.oracle} {name}: {n_bytes:,} bytes")


if __name__ == "__main__":
    main()
