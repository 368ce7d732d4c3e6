"""The mean of the weights of runs that went on from each other: often better than any of them.

`python -m tools.train_demo.mean RUN RUN2 ... --out DIR` writes `DIR/checkpoint.pt` with the mean
network alone, and the tokenizer and chat template of the first run, ready for `export`.
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

import torch


def mean(networks: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean of state dicts that have the same names and shapes."""
    return {
        name: torch.stack([network[name].double() for network in networks]).mean(0).to(value.dtype)
        for name, value in networks[0].items()
    }


def main() -> None:
    """Write the folder of the mean."""
    options = argparse.ArgumentParser(prog="python -m tools.train_demo.mean")
    options.add_argument("runs", type=Path, nargs="+", help="folders that training wrote")
    options.add_argument("--out", type=Path, required=True, help="the folder to write")
    given = options.parse_args()
    states = [torch.load(run / "checkpoint.pt", weights_only=True) for run in given.runs]
    given.out.mkdir(parents=True, exist_ok=True)
    network = mean([state["network"] for state in states])
    torch.save({"network": network}, given.out / "checkpoint.pt")
    for name in ("tokenizer.json", "chat_template.jinja"):
        shutil.copyfile(given.runs[0] / name, given.out / name)


if __name__ == "__main__":
    main()
