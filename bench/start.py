"""From nothing to the first token, and the memory it takes: ours and llama.cpp's, in turn.

    python -m bench.start MODEL.gguf [--rounds 3] [--first 1] [--prompt 512]

Each start is a process of its own, with the file read into the page cache before it. Ours starts
without a packed file, keeps one, and starts again with that one in the page cache instead. Seconds
run from before the import to the logits after a first prompt of scattered tokens; a longer one
needs more experts. Memory is the peak resident size after the whole prompt, with all experts
packed.
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
from junto.ops.cpu.processors import default_threads

# VmHWM belongs to the new program alone; getrusage would carry over the peak of its parent.
OURS = """
import json, re, sys, time
path, n_first, n_prompt, n_threads = sys.argv[1], *map(int, sys.argv[2:])
start = time.perf_counter()
import junto
model = junto.load(path, n_ctx=4096)
ids = [1 + i * 7919 % (model.config.n_vocab - 1) for i in range(max(n_first, n_prompt))]
next(model.generate(ids[:n_first], n_predict=1))
seconds = time.perf_counter() - start
next(model.generate(ids[:n_prompt], n_predict=1))
model.settle()
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(json.dumps([seconds, peak]))
"""
THEIRS = """
import json, re, sys, time
path, n_first, n_prompt, n_threads = sys.argv[1], *map(int, sys.argv[2:])
start = time.perf_counter()
from llama_cpp import Llama
model = Llama(path, n_ctx=4096, n_threads=n_threads, n_threads_batch=n_threads, verbose=False)
ids = [1 + i * 7919 % (model.n_vocab() - 1) for i in range(max(n_first, n_prompt))]
model.eval(ids[:n_first])
seconds = time.perf_counter() - start
model.reset()
model.eval(ids[:n_prompt])
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(json.dumps([seconds, peak]))
"""
HEAD = "| start | first token, s | peak memory, GB |\n|---|---|---|"


def read_through(path: Path) -> None:
    """Bring a file into the page cache."""
    with path.open("rb") as file:
        while file.read(16 << 20):
            pass


def started(program: str, options: argparse.Namespace, cache: Path) -> tuple[float, float]:
    """Seconds to the first token and peak bytes of one process."""
    packed = [path for path in cache.rglob("*") if path.is_file()]
    for path in packed or [options.model]:
        read_through(path)
    numbers = map(str, (options.first, options.prompt, default_threads()))
    words = [sys.executable, "-W", "ignore", "-c", program, str(options.model), *numbers]
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
    parser.add_argument("--first", type=int, default=1, help="tokens before the first answer")
    parser.add_argument("--prompt", type=int, default=512, help="tokens that memory is measured at")
    parser.add_argument("--alone", action="store_true", help="without llama.cpp")
    options = parser.parse_args(words)
    runs: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(dir=options.model.parent) as folder:
            for name in ("junto, first", "junto, later"):
                run = started(OURS, options, Path(folder))
                runs.setdefault(name, []).append(run)
        if not options.alone:
            run = started(THEIRS, options, Path(folder))
            runs.setdefault("llama.cpp", []).append(run)
    print(HEAD)
    middle = {
        name: [median(column) for column in zip(*some, strict=True)] for name, some in runs.items()
    }
    for name, (seconds, peak) in middle.items():
        print(f"| {name} | {seconds:.2f} | {peak / 1e9:.2f} |")
    report = {"model": options.model.name, "machine": processor().name}
    report |= {name: getattr(options, name) for name in ("rounds", "first", "prompt")}
    print(json.dumps(report | {"median": middle, "runs": runs}))


if __name__ == "__main__":
    main()
