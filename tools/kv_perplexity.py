"""Measure what each way of holding keys and values costs: the table of docs/accuracy.md.

    python tools/kv_perplexity.py               all of it: half an hour, two processors
    python tools/kv_perplexity.py --n-chunk 2 --types q4_0
    python tools/kv_perplexity.py --model demo:gpt-oss --text BOOK.txt --n-tok 512

A model, SmolLM2 if none is named, reads a text, WikiText-2 if none is given, in chunks that stand
alone, by backend cpu, each once for every way. The matrices are decoded to float32, so that
activations stay float: rounding them to 8 bits would blur the differences, which are small. All
ways read the same tokens, so each is compared with float32 token by token; the error of a change is
the standard error of that mean difference.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import junto
from junto.cache import FLOAT32, KVName, KVType
from junto.chat.tokenizer import Tokenizer
from junto.engine.runner import Runner
from junto.formats.gguf import GGUFFile
from junto.formats.tensor import Tensor
from junto.library import find_model
from junto.models.loading import Blueprint, locate, open_file, take
from junto.ops.contract import Weight
from junto.ops.cpu import Cpu
from junto.ops.views import F32
from tests.ops.nearness import F64
from tests.tiny import smollm2

N_STEP = 512
QUANTISED: tuple[KVName, ...] = ("q8_0", "q4_0")


class FloatCpu(Cpu):
    """The cpu backend on matrices decoded to float32."""

    def weight(self, tensor: Tensor | Sequence[Tensor]) -> Weight:
        """Take a matrix, or a stack, as float32."""
        if isinstance(tensor, Tensor):
            return super().weight(as_float32(tensor))
        return super().weight([as_float32(one) for one in tensor])


def as_float32(tensor: Tensor) -> Tensor:
    """The same values in float32."""
    return Tensor.from_array(tensor.name, tensor.float32(), tensor.source)


@dataclass
class Way:
    """One way of holding keys and values, and what it gave so far.

    loss        negative log likelihood of each scored token, nats
    divergence  KL from float32 after each of those positions, nats
    same_top    whether the likeliest token is that of float32
    """

    kv: KVType
    runner: Runner
    loss: list[F64] = field(default_factory=list)
    divergence: list[F64] = field(default_factory=list)
    same_top: list[np.ndarray] = field(default_factory=list)

    def take(self, logits: F32, ids: np.ndarray, true: F32) -> None:
        """Score log-probabilities of float32 `true` and of this way's logits [n, n_vocab]."""
        rows = log_softmax(logits)
        self.loss.append(-rows[np.arange(len(ids)), ids].astype(np.float64))
        self.divergence.append((np.exp(true) * (true - rows)).sum(axis=1, dtype=np.float64))
        self.same_top.append(rows.argmax(axis=1) == true.argmax(axis=1))


def log_softmax(logits: F32) -> F32:
    """Natural log of the probabilities, row by row."""
    rows = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(rows).sum(axis=1, keepdims=True, dtype=np.float64)
    log_rows: F32 = rows - np.log(total).astype(np.float32)
    return log_rows


def ways(blueprint: Blueprint, types: Sequence[KVName], n_ctx: int) -> Iterator[Way]:
    """Float32 first, float16, then each quantised type with and without sinks and window."""
    ops = FloatCpu()
    weights = take(blueprint, ops)
    kvs = [FLOAT32, KVType("f16")]
    kvs += [KVType(name, window, sinks) for name in types for window, sinks in SETTINGS]
    for kv in kvs:
        cache = blueprint.architecture.make_cache(blueprint.cfg, 1, n_ctx, kv)
        yield Way(kv, Runner(blueprint.architecture, blueprint.cfg, weights, ops, cache))


SETTINGS = ((128, 64), (128, 0), (0, 64), (0, 0))


def read_chunk(chosen: Sequence[Way], ids: np.ndarray) -> None:
    """Feed one chunk to every way, step by step, and score positions 1 and on."""
    slots = [way.runner.cache.open() for way in chosen]
    for start in range(0, len(ids), N_STEP):
        fed, following = ids[start : start + N_STEP], ids[start + 1 : start + N_STEP + 1]
        true: F32 | None = None
        for way, slot in zip(chosen, slots, strict=True):
            logits = way.runner.step([(slot, fed.tolist())], all_logits=True)[: len(following)]
            true = log_softmax(logits) if true is None else true
            way.take(logits, following, true)
    for way, slot in zip(chosen, slots, strict=True):
        way.runner.cache.close(slot)


def rows(chosen: Sequence[Way]) -> Iterator[dict[str, object]]:
    """The figures of each way."""
    exact = np.concatenate(chosen[0].loss)
    for way in chosen:
        loss = np.concatenate(way.loss)
        apart = loss - exact
        yield {
            "kv": way.kv.name,
            "window": way.kv.window if way.kv.n_code_bit else None,
            "sinks": way.kv.sinks if way.kv.n_code_bit else None,
            "perplexity": float(np.exp(loss.mean())),
            "change": float(np.expm1(apart.mean())),
            "change_error": float(apart.std() / np.sqrt(len(apart))),
            "mean_kl": float(np.concatenate(way.divergence).mean()),
            "same_top": float(np.concatenate(way.same_top).mean()),
        }


def show(figures: Sequence[dict[str, object]]) -> None:
    """Print a Markdown table."""
    print("| kv | window | sinks | perplexity | to f32 | mean KL | same likeliest token |")
    print("|---|---|---|---|---|---|---|")
    for f in figures:
        ages = f["window"] is not None
        print(
            f"| {f['kv']} | {f['window'] if ages else ''} | {f['sinks'] if ages else ''} "
            f"| {f['perplexity']:.4f} | {f['change']:+.3%} ± {f['change_error']:.3%} "
            f"| {f['mean_kl']:.2e} | {f['same_top']:.2%} |",
            flush=True,
        )
    print()


def main() -> None:
    """Read the text, print the table, then one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-chunk", type=int, default=16, help="chunks to read")
    parser.add_argument("--n-tok", type=int, default=2048, help="tokens of a chunk")
    parser.add_argument("--types", nargs="+", choices=QUANTISED, default=QUANTISED)
    parser.add_argument("--model", help="a GGUF or demo:NAME (default: SmolLM2-135M)")
    parser.add_argument("--text", type=Path, help="what to read (default: WikiText-2)")
    wanted = parser.parse_args()
    blueprint = locate(
        open_file(find_model(wanted.model) if wanted.model else smollm2.model_path())
    )
    assert isinstance(blueprint.file, GGUFFile)
    tokenizer = Tokenizer.from_gguf(blueprint.file.metadata, blueprint.file.path.name)
    text = wanted.text.read_text(encoding="utf-8") if wanted.text else smollm2.whole_wikitext()
    ids = np.array(tokenizer.encode(text, special=False), np.int64)
    n_chunk = min(wanted.n_chunk, len(ids) // wanted.n_tok)
    chunks = ids[: n_chunk * wanted.n_tok].reshape(n_chunk, wanted.n_tok)
    chosen, start = list(ways(blueprint, wanted.types, wanted.n_tok)), time.perf_counter()
    print(f"junto {junto.__version__}, {platform.machine()}: {chunks.size:,} tokens")
    for i, chunk in enumerate(chunks):
        read_chunk(chosen, chunk)
        print(f"chunk {i + 1}, {time.perf_counter() - start:.0f} s\n", flush=True)
        show(list(rows(chosen)))
    print(json.dumps({"n_chunk": n_chunk, "n_tok": wanted.n_tok, "rows": [*rows(chosen)]}))


if __name__ == "__main__":
    main()
