"""Fuzz the readers of GGUF and safetensors for a while, and print what was tried.

    make fuzz                                        one minute, a new seed
    make fuzz FUZZ="--seconds 3600 --seed 7"
    python tools/fuzz.py --seconds 300

What an input may do is told in tests/formats/fuzzing.py. Inputs that do otherwise are kept in the
folder of --keep, each with what happened beside it, and the exit code is 1. The last line is JSON.
"""

import argparse
import faulthandler
import hashlib
import json
import platform
import resource
import secrets
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.formats.fuzzing import MAX_BYTES, TARGETS, Campaign
from tests.peak_memory import peak_bytes

TURN_SECONDS = 1.0
N_SHOWN = 5


def protect() -> None:
    """Make an input that asks for gigabytes fail here, not the machine; show where a crash is."""
    faulthandler.enable()
    n_pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = n_pages * resource.getpagesize() + 2 * MAX_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def fuzz(seconds: float, seed: int, folder: Path) -> list[Campaign]:
    """Give each target its turn until the time is over."""
    end = time.monotonic() + seconds
    campaigns = [Campaign(name, folder / name, seed) for name in TARGETS]
    while time.monotonic() < end:
        for campaign in campaigns:
            turn = min(end, time.monotonic() + TURN_SECONDS)
            while time.monotonic() < turn:
                campaign.step()
    return campaigns


def keep(campaigns: list[Campaign], folder: Path) -> None:
    """Write the inputs that failed, named by their content."""
    for campaign in campaigns:
        for content, reason in campaign.failures:
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{campaign.name}-{hashlib.sha256(content).hexdigest()[:12]}"
            (folder / name).write_bytes(content)
            (folder / f"{name}.txt").write_text(reason)


def report(campaigns: list[Campaign], seconds: float, seed: int, n_bytes_grown: int) -> None:
    """Print the table, the first failures, and the line of JSON."""
    print("| reader | inputs | read | failures | slowest | places reached | inputs kept |")
    print("|---|---|---|---|---|---|---|")
    for c in campaigns:
        print(
            f"| {c.name} | {c.n_tried:,} | {c.n_read / c.n_tried:.0%} | {len(c.failures)} | "
            f"{c.slowest * 1000:.0f} ms | {len(c.coverage.steps)} | {len(c.corpus)} |"
        )
    for reason in [reason for c in campaigns for _, reason in c.failures][:N_SHOWN]:
        print(f"\n{reason}", file=sys.stderr)
    total = {
        "inputs": sum(c.n_tried for c in campaigns),
        "failures": sum(len(c.failures) for c in campaigns),
        "slowest_seconds": round(max(c.slowest for c in campaigns), 4),
        "memory_growth_mb": n_bytes_grown >> 20,
        "seconds": round(seconds),
        "seed": seed,
        "python": platform.python_version(),
    }
    print(json.dumps(total))


def main() -> int:
    """Run, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    protect()
    start = peak_bytes()
    memory = Path("/dev/shm")  # files that never touch a disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        campaigns = fuzz(options.seconds, seed, Path(folder))
    keep(campaigns, options.keep)
    report(campaigns, options.seconds, seed, peak_bytes() - start)
    failed = any(campaign.failures for campaign in campaigns)
    if failed:
        print(f"inputs that failed are kept in {options.keep}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
