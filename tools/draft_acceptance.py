"""Print how often a draft head's first guess is accepted, by junto and by llama.cpp.

    python tools/draft_acceptance.py model.gguf             a table, in a minute or two
    python tools/draft_acceptance.py model.gguf --record    and keep llama.cpp's share for the tests

llama.cpp's rows need llama-cpp-python (`make oracle` makes an environment with it). What accepted
means is told in tests/draft_acceptance.py. "text": texts held out from the demo models' training,
as they are; "greedy": 32 tokens of them, continued by junto, of which the continuation counts.
"""

import argparse
import importlib.util
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import junto
from tests.draft_acceptance import (
    GOLDEN,
    N_PROMPT,
    N_WINDOW,
    Drafting,
    acceptance,
    continued,
    golden,
    held_out_windows,
    ids_sha256,
    weights_sha256,
)
from tests.tiny.random_weights import I64


def record(path: Path, windows: Sequence[I64], share: float) -> None:
    """Keep llama.cpp's share over windows of text."""
    from tests.oracle.llama_cpp_oracle import versions

    recorded = golden() if GOLDEN.exists() else {}
    recorded[weights_sha256(path)] = {
        "command": f"python tools/draft_acceptance.py {path.name} --record",
        "ids_sha256": ids_sha256(windows),
        "n_window": len(windows),
        "accepted": share,
        **versions(),
    }
    GOLDEN.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF with a draft head")
    parser.add_argument("--n-window", type=int, default=N_WINDOW, help="windows of 512 tokens")
    parser.add_argument("--record", action="store_true", help="write llama.cpp's to tests/golden")
    given = parser.parse_args()
    model = junto.load(given.model, draft=True)
    text = held_out_windows(model.text, given.n_window)
    greedy = continued(model, text)
    n_text = sum(len(ids) - 1 for ids in text)
    n_greedy = sum(len(ids) - N_PROMPT for ids in greedy)
    print(f"junto {junto.__version__}, {platform.machine()}, {given.model.name}\n")
    print(f"| | text ({n_text:,} guesses) | greedy ({n_greedy:,} guesses) |")
    print("|---|---|---|")

    def row(name: str, who: Drafting) -> float:
        on_text = acceptance(who, text)
        print(f"| {name} | {on_text:.2%} | {acceptance(who, greedy, N_PROMPT):.2%} |", flush=True)
        return on_text

    row("junto reference", junto.load(given.model, backend="reference", draft=True))
    row("junto cpu", model)
    if importlib.util.find_spec("llama_cpp") is None:
        print("\nllama.cpp is not installed here, so its row is missing")
        return
    from tests.oracle.llama_cpp_draft import DraftModel

    with DraftModel(given.model) as oracle:
        theirs = row("llama.cpp", oracle)
    if given.record:
        record(given.model, text, theirs)


if __name__ == "__main__":
    main()
