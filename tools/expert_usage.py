"""Draw how often each expert of each layer is chosen while a model reads a text.

    python -m tools.expert_usage demo:qwen35moe --text book.txt -o docs/images/experts.png

One row of bars a layer; the line is what equal use would be. Needs matplotlib: pip install
'junto[bench]'.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

import junto
from junto.library import find_model
from junto.measure.expert_usage import expert_usage

BAR, LINE = "#2a6f97", "#444444"


def main() -> None:
    """Draw, and print each layer's least and most used expert."""
    options = argparse.ArgumentParser(prog="python -m tools.expert_usage")
    options.add_argument("model")
    options.add_argument("--text", type=Path, required=True)
    options.add_argument("-n", type=int, default=8192, help="most tokens to read")
    options.add_argument("-o", "--out", type=Path, required=True, help="a .png")
    given = options.parse_args()
    model = junto.load(find_model(given.model))
    ids = model.text.tokenizer.encode(given.text.read_text(encoding="utf-8"), special=False)
    ids = ids[: min(given.n, model.n_ctx)]
    counts = expert_usage(model.runner, ids)
    shares = counts / counts.sum(axis=1, keepdims=True)
    n_layer, n_expert = shares.shape
    figure, panels = plt.subplots(
        n_layer, 1, figsize=(6.4, 0.7 * n_layer + 0.6), sharex=True, sharey=True, squeeze=False
    )
    for layer, (panel, share) in enumerate(zip(panels[:, 0], shares, strict=True)):
        panel.bar(range(n_expert), 100 * share, color=BAR)
        panel.axhline(100 / n_expert, color=LINE, linewidth=0.8)
        panel.set_ylabel(f"layer {layer}", rotation=0, ha="right", va="center")
        panel.spines[["top", "right"]].set_visible(False)
        print(f"layer {layer}: {100 * share.min():.1f} to {100 * share.max():.1f} %")
    panels[-1, 0].set_xlabel("expert")
    figure.suptitle(f"{given.model}: share of choices, %, {len(ids):,} tokens", fontsize=10)
    figure.tight_layout()
    figure.savefig(given.out, dpi=110)


if __name__ == "__main__":
    main()
