"""How often the draft head's first guess is what the model itself says next.

Over given tokens: the model has read tokens 0 to i and is given token i + 1. The draft's guess of
token i + 2 is accepted where it is the model's own likeliest token there, once that has read token
i + 1. No sampling and no chains of guesses, so any program that has both logits gives the number.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import junto
from junto.formats.gguf import read_gguf
from junto.text import Text
from tests.data_dir import REPOSITORY, find
from tests.tiny.random_weights import F32, I64
from tools.train_demo.corpus import read_corpus

GOLDEN = REPOSITORY / "tests" / "golden" / "draft_acceptance.json"
N_TOK = 512
N_WINDOW = 24
N_PROMPT = 32
"""Tokens of a window that the model continues itself."""


class Drafting(Protocol):
    """What gives both logits: `junto.Model` and the oracle."""

    def logits(self, token_ids: I64) -> F32:
        """After each token, [n_tok, n_vocab]."""
        ...

    def draft_logits(self, token_ids: I64) -> F32:
        """Of the draft head, [n_tok - 1, n_vocab]."""
        ...


def held_out_windows(text: Text, n_window: int) -> list[I64]:
    """Windows of N_TOK tokens, evenly spread over the texts held out from the demo models."""
    texts = read_corpus(find("text/childrens_books.txt.xz").parent).held_out
    each = n_window // len(texts)
    return [row for held_out in texts for row in _windows(text, held_out, each)]


def _windows(text: Text, held_out: str, n: int) -> Iterator[I64]:
    for start in np.linspace(0, len(held_out) - 8 * N_TOK, n).astype(int):
        ids = text.encode(held_out[start : start + 8 * N_TOK])[:N_TOK]
        assert len(ids) == N_TOK, "eight characters a token are enough"
        yield np.array(ids, np.int64)


def continued(model: junto.Model, windows: Sequence[I64]) -> list[I64]:
    """The first N_PROMPT tokens of each window and the model's greedy continuation."""
    out = []
    for window in windows:
        prompt = window[:N_PROMPT].tolist()
        pieces = model.generate(prompt, n_predict=N_TOK - N_PROMPT, temperature=0)
        out.append(np.array([*prompt, *(piece.token_id for piece in pieces)], np.int64))
    return [ids for ids in out if len(ids) > N_PROMPT + 2]


def accepted(model: Drafting, ids: I64, n_given: int = 1) -> npt.NDArray[np.bool_]:
    """Whether each guess is accepted, behind the first `n_given` tokens."""
    own = model.logits(ids)[1:].argmax(axis=1)
    return np.asarray(model.draft_logits(ids).argmax(axis=1) == own)[n_given - 1 :]


def acceptance(model: Drafting, windows: Sequence[I64], n_given: int = 1) -> float:
    """Share of all guesses over the windows that are accepted."""
    return float(np.concatenate([accepted(model, ids, n_given) for ids in windows]).mean())


def golden() -> dict[str, dict[str, Any]]:
    """What llama.cpp accepts, by `weights_sha256`; tools/draft_acceptance.py writes it."""
    recorded: dict[str, dict[str, Any]] = json.loads(GOLDEN.read_text("utf-8"))
    return recorded


def weights_sha256(path: Path) -> str:
    """What tells one model from another, whatever else its GGUF says."""
    digest = hashlib.sha256()
    for name, tensor in sorted(read_gguf(path).tensors.items()):
        digest.update(f"{name} {tensor.type.name} {tensor.shape}".encode())
        digest.update(tensor.data.tobytes())
    return digest.hexdigest()


def ids_sha256(windows: Sequence[I64]) -> str:
    """What tells that the windows hold the same tokens."""
    return hashlib.sha256(np.concatenate(windows).astype("<u4").tobytes()).hexdigest()
