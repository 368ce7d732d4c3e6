"""From nothing to the first token, and the memory it takes: ours and llama.cpp's, in turn.

    python -m bench.start MODEL.gguf [--rounds 3] [--prompt 512]

Each start is a process of its own, with the file read into the page cache before it. Ours starts
without a packed file, keeps one, and starts again with it. Seconds run from before the import to
the logits after the prompt's first token; memory is the peak resident size after the whole prompt.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from junto.measure.machine import processor
from junto.ops.cpu.processors import usable_processors

# VmHWM belongs to the new program alone; getrusage would carry over the peak of its parent.
OURS = """
import json, re, sys, time
start = time.perf_counter()
import junto
model = junto.load(sys.argv[1], n_ctx=4096)
model.logits([1])
seconds = time.perf_counter() - start
model.logits([1 + i % 100 for i in range(int(sys.argv[2]))])
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
model.settle()
print(json.dumps([seconds, peak]))
"""
THEIRS = """
import json, re, sys, time
start = time.perf_counter()
from llama_cpp import Llama
model = Llama(sys.argv[1], n_ctx=4096, n_threads=int(sys.argv[3]), verbose=False)
model.eval([1])
seconds = time.perf_counter() - start
model.reset()
model.eval([1 + i % 100 for i in range(int(sys.argv[2]))])
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(json.dumps([seconds, peak]))
"""
HEAD = "| start | first token, s | peak memory, GB |\n|---|---|---|"


def read_through(path: Path) -> None:
    """Bring a file into the page cache."""
    with path.open("rb") as file:
        while file.read(16 << 20):
            pass


def started(program: str, path: Path, n_prompt: int, cache: Path) -> tuple[float, float]:
    """Seconds to the first token and peak bytes of one process."""
    read_through(path)
    numbers = [str(n_prompt), str(usable_processors())]
    words = [sys.executable, "-W", "ignore", "-c", program, str(path), *numbers]
    environment = os.environ | {"JUNTO_CACHE": str(cache)}
    run = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    seconds, peak = json.loads(run.stdout.splitlines()[-1])
    return seconds, peak


def main(words: Sequence[str] | None = None) -> None:
    """Print the table, and one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.start", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=512, help="tokens that memory is measured at")
    parser.add_argument("--alone", action="store_true", help="without llama.cpp")
    options = parser.parse_args(words)
    runs: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=options.model.parent) as folder:
            for name in ("junto, first", "junto, later"):
                run = started(OURS, options.model, options.prompt, Path(folder))
                runs.setdefault(name, []).append(run)
        if not options.alone:
            run = started(THEIRS, options.model, options.prompt, Path(folder))
            runs.setdefault("llama.cpp", []).append(run)
    print(HEAD)
    middle = {
        name: [median(column) for column in zip(*some, strict=True)] for name, some in runs.items()
    }
    for name, (seconds, peak) in middle.items():
        print(f"| {name} | {seconds:.2f} | {peak / 1e9:.2f} |")
    report = {"model": options.model.name, "machine": processor().name, "rounds": options.rounds}
    print(json.dumps(report | {"median": middle, "runs": runs}))


if __name__ == "__main__":
    main()
