"""Pictures of what `bench.compare` and `bench.profile` measured, from their JSON lines.

    python -m bench.picture compare.txt [more.txt ...] -o docs/images/compare.svg
    python -m bench.picture profile.txt -o docs/images/profile.svg

Each file is the output of a run, or its last line. Needs matplotlib: pip install 'junto[bench]'.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
# Text stays text, in the reader's font; and the same measurements give the same file.
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "junto", "font.size": 9})

from matplotlib import pyplot as plt  # noqa: E402 (after the backend is chosen)

OURS, PLAIN, LINE = "#2a6f97", "#c9d6df", "#444444"
N_SHOWN = 9
"""Ops of a profile that get their own bar."""


def report_in(path: Path) -> dict[str, Any]:
    """The JSON object of a run's last line that is not empty."""
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    report = json.loads(lines[-1])
    if not isinstance(report, dict) or not {"rows", "profiles"} & set(report):
        raise SystemExit(f"{path}: the last line is of neither bench.compare nor bench.profile")
    return report


def draw_compare(reports: Sequence[dict[str, Any]], path: Path) -> None:
    """A panel for each model: how many times faster than the rival, with quartiles."""
    n_row = [len(report["rows"]) for report in reports]
    height = 0.9 * len(reports) + 0.32 * sum(n_row)
    figure, panels = plt.subplots(
        len(reports), 1, figsize=(6.4, height), squeeze=False, height_ratios=n_row
    )
    for panel, report in zip(panels[:, 0], reports, strict=True):
        _draw_ratios(panel, report)
    _save(figure, path)


def _draw_ratios(panel: Any, report: dict[str, Any]) -> None:
    rows = report["rows"][::-1]
    ratios = [row["ratio"] for row in rows]
    medians = [ratio["median"] for ratio in ratios]
    below = [ratio["median"] - ratio["low"] for ratio in ratios]
    above = [ratio["high"] - ratio["median"] for ratio in ratios]
    error = {"ecolor": LINE, "capsize": 2}
    panel.barh(range(len(rows)), medians, xerr=(below, above), color=OURS, error_kw=error)
    for i, (row, ratio) in enumerate(zip(rows, ratios, strict=True)):
        ours, theirs = figure_of(row["ours"]["median"]), figure_of(row["theirs"]["median"])
        text = f"  {ratio['median']:.2f} ({ours} beside {theirs} tokens/s)"
        panel.text(ratio["high"], i, text, va="center")
    panel.axvline(1.0, color=LINE, linewidth=0.8, linestyle=":")
    panel.set_yticks(range(len(rows)), [row["work"] for row in rows])
    panel.set_xlim(0, 1.9 * max(ratio["high"] for ratio in ratios))
    panel.set_title(f"{report['model']}: speed over llama.cpp's", loc="left", fontsize=9)
    where = f"{report['machine']}, {report['threads']} threads, {report['level']}"
    panel.set_xlabel(
        f"{where}, junto {report['commit']}, {report['rival']}", fontsize=7, loc="left"
    )
    _bare(panel)


def figure_of(value: float) -> str:
    """Tokens a second, as exactly as they are of use."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def draw_profiles(report: dict[str, Any], path: Path) -> None:
    """A panel for each profile: milliseconds and share of each op."""
    profiles = report["profiles"]
    figure, panels = plt.subplots(
        len(profiles), 1, figsize=(6.4, 2.6 * len(profiles)), squeeze=False
    )
    for panel, (name, profile) in zip(panels[:, 0], profiles.items(), strict=True):
        bars = bars_of(profile)
        total = sum(profile.values())
        colors = [PLAIN if op == "python" else OURS for op, _ in bars]
        panel.barh(range(len(bars)), [ms for _, ms in bars], color=colors)
        for i, (_, ms) in enumerate(bars):
            panel.text(ms, i, f"  {ms:.3g} ms, {ms / total:.0%}", va="center")
        panel.set_yticks(range(len(bars)), [op for op, _ in bars])
        panel.set_xlim(0, 1.4 * max(ms for _, ms in bars))
        panel.set_title(f"{report['model']}: {name}, {total:.3g} ms", loc="left", fontsize=9)
        _bare(panel)
    _save(figure, path)


def bars_of(profile: dict[str, float]) -> list[tuple[str, float]]:
    """The largest ops, Python, and the rest as one, from the bottom up."""
    ranked = sorted(profile.items(), key=lambda item: -item[1])
    shown = [item for i, item in enumerate(ranked) if i < N_SHOWN or item[0] == "python"]
    rest = sum(ms for op, ms in ranked if op not in dict(shown))
    return [*([("other ops", rest)] if rest else []), *reversed(shown)]


def _bare(panel: Any) -> None:
    panel.spines[["top", "right", "bottom"]].set_visible(False)
    panel.set_xticks([])
    panel.tick_params(left=False)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.tight_layout()
    figure.savefig(path, dpi=150, metadata=metadata, bbox_inches="tight")
    plt.close(figure)


def main(words: Sequence[str] | None = None) -> None:
    """Draw what the files hold."""
    parser = argparse.ArgumentParser(prog="python -m bench.picture", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(words)
    reports = [report_in(path) for path in options.files]
    if all("rows" in report for report in reports):
        draw_compare(reports, options.output)
    elif len(reports) == 1:
        draw_profiles(reports[0], options.output)
    else:
        raise SystemExit("give one profile, or any number of comparisons")


if __name__ == "__main__":
    main()
