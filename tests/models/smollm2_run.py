"""Runs SmolLM2-135M as llama.cpp ran it for the golden: for the tests and `make accuracy`."""

from dataclasses import dataclass

import numpy as np

import junto
from tests.tiny import smollm2

TIE = 0.01
"""Where llama.cpp's two best logits are nearer than this, either token may win."""


@dataclass(frozen=True)
class Difference:
    """A step at which we choose another token than llama.cpp; gap between its two best logits."""

    prompt: str
    step: int
    ours: int
    theirs: int
    gap: float


def greedy_differences(model: junto.Model) -> list[Difference]:
    """Our best token after each of llama.cpp's 5 x 200, where it is another than its own.

    Each text is fed as llama.cpp continued it, so that one difference does not hide the rest.
    """
    differences = []
    for run in smollm2.golden()["greedy"]:
        fed = run["prompt_ids"] + run["ids"][:-1]
        best = np.argmax(model.logits(fed)[len(run["prompt_ids"]) - 1 :], axis=1)
        for step, (ours, theirs) in enumerate(zip(best.tolist(), run["ids"], strict=True)):
            if ours != theirs:
                gap = run["gaps"][step]
                differences.append(Difference(run["prompt"], step, ours, theirs, gap))
    return differences


def greedy_by_steps(model: junto.Model, n_tok: int) -> list[list[int]]:
    """The first greedy tokens of the five prompts, decoded together, one step a token."""
    runner, runs = model.runner, smollm2.golden()["greedy"]
    slots = [runner.cache.open() for _ in runs]
    texts: list[list[int]] = [[] for _ in slots]
    work = [(slot, run["prompt_ids"]) for slot, run in zip(slots, runs, strict=True)]
    for _ in range(n_tok):
        best = np.argmax(runner.step(work), axis=1).tolist()
        for text, token in zip(texts, best, strict=True):
            text.append(token)
        work = [(slot, [token]) for slot, token in zip(slots, best, strict=True)]
    for slot in slots:
        runner.cache.close(slot)
    return texts


def wikitext_ids(model: junto.Model) -> np.ndarray:
    """The first 8,192 ids of WikiText-2's test text by our tokenizer, checked by their hash."""
    assert model.tokenizer is not None
    ids = np.array(model.tokenizer.encode(smollm2.wikitext(), special=False), np.int64)
    ids = ids[: smollm2.N_IDS]
    assert smollm2.sha256_of_ids(ids) == smollm2.golden()["wikitext"]["ids_sha256"]
    return ids


def chunk_losses(model: junto.Model, ids: np.ndarray) -> list[float]:
    """Mean negative log likelihood (nats) of each chunk, run alone, at its positions 1 and on."""
    chunks = ids.reshape(-1, smollm2.N_CHUNK)
    return [smollm2.negative_log_likelihood(model.logits(chunk), chunk) for chunk in chunks]


def perplexity(losses: list[float]) -> float:
    """Perplexity of chunks of equal length."""
    return float(np.exp(np.mean(losses)))
