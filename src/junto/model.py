"""The facade: load a file, ask for logits, generate text.

It joins the parts (files, model, backend, tokenizer) and holds none of their rules.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from junto.cache import KVType
from junto.chat.detokenizer import StreamDecoder
from junto.chat.prompt import prompt_ids
from junto.chat.tokenizer import Tokenizer
from junto.engine.generation import (
    PREFILL_STEP,
    FinishReason,
    Generated,
    Request,
    check,
    generate,
)
from junto.engine.runner import Runner
from junto.errors import RequestError, TextError
from junto.formats.gguf import GGUFFile
from junto.models.loading import Blueprint, locate, open_file, take
from junto.ops.contract import Ops, Sampling
from junto.ops.cpu import Cpu
from junto.ops.reference import Reference
from junto.ops.views import F32


@dataclass(frozen=True, slots=True)
class Backend:
    """How a backend is made, and how it can hold keys and values ("auto" is its choice)."""

    make: Callable[[int | None], Ops]
    kv: Mapping[str, KVType]


def _reference(n_threads: int | None) -> Ops:
    if n_threads is not None:
        raise RequestError("backend 'reference' leaves threads to NumPy; n_threads is for 'cpu'")
    return Reference()


BACKENDS = {
    "cpu": Backend(Cpu, {"auto": np.float16, "f32": np.float32, "f16": np.float16}),
    "reference": Backend(_reference, {"auto": np.float32, "f32": np.float32}),
}
N_SLOT = 8
"""Sequences a model can hold at once."""


class Piece(str):
    """The text that one token made certain; it may be empty.

    token_id        the token
    finish_reason   on the last piece: "stop" (an end token or a stop string) or "length"
    """

    __slots__ = ("finish_reason", "token_id")
    token_id: int
    finish_reason: FinishReason | None

    def __new__(cls, text: str, token_id: int, finish_reason: FinishReason | None) -> "Piece":
        """A piece of text with its token."""
        piece = super().__new__(cls, text)
        piece.token_id = token_id
        piece.finish_reason = finish_reason
        return piece


class Model:
    """A model that is loaded and can run.

    name        file or folder name
    config      the architecture's config
    tokenizer   None when the file has none; only text asks for it
    n_ctx       most tokens of one sequence
    notes       what was left unused, one line each
    runner      steps of token ids, for those who batch by themselves
    """

    def __init__(
        self,
        name: str,
        config: Any,
        tokenizer: Tokenizer | None,
        runner: Runner,
        notes: tuple[str, ...],
    ) -> None:
        self.name = name
        self.config = config
        self.tokenizer = tokenizer
        self.runner = runner
        self.notes = notes

    @property
    def n_ctx(self) -> int:
        """Most tokens of one sequence."""
        return self.runner.cache.n_ctx

    def logits(self, token_ids: Sequence[int] | np.ndarray) -> F32:
        """Logits after each token of one fresh sequence: float32 [n_tok, n_vocab].

        RequestError if there is no token, one outside the vocabulary, or more than `n_ctx`.
        """
        ids = _whole_numbers(token_ids)
        if not ids:
            raise RequestError("logits: no token ids given, expected at least one")
        cache = self.runner.cache
        slot = cache.open()
        try:
            return np.concatenate(
                [
                    self.runner.step([(slot, ids[start : start + PREFILL_STEP])], all_logits=True)
                    for start in range(0, len(ids), PREFILL_STEP)
                ]
            )
        finally:
            cache.close(slot)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        n_predict: int = 128,
        temperature: float = 0.8,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        seed: int | None = None,
        stop: Sequence[str] = (),
        chat: bool = False,
        system: str | None = None,
    ) -> Iterator[Piece]:
        """Continue a prompt, one piece a token.

        prompt        text, or token ids (which need no tokenizer)
        n_predict     most tokens to generate
        temperature, top_k, top_p, min_p    see `junto.ops.contract.Sampling`
        seed          the same seed gives the same tokens; None takes a new one
        stop          strings that end the text; they are not part of it
        chat          the prompt is a user's message: render it with the model's chat template
        system        a system message before it (with `chat`)

        TextError where text is asked for and the file has no tokenizer (or no chat template);
        RequestError where an argument is out of range. Both before the first piece.
        """
        if stop and self.tokenizer is None:
            raise TextError(f"{self.name}: no tokenizer in the file, so no stop strings")
        ids = self._prompt_ids(prompt, chat, system)
        request = Request(
            prompt=ids,
            n_predict=n_predict,
            sampling=Sampling(temperature, top_k, top_p, min_p),
            seed=secrets.randbits(64) if seed is None else seed,
            stop_ids=self.tokenizer.eos_ids if self.tokenizer else frozenset(),
        )
        check(request, self.n_ctx)
        decoder = StreamDecoder(self.tokenizer, stop) if self.tokenizer else None
        return _pieces(generate(self.runner, request), decoder)

    def _prompt_ids(
        self, prompt: str | Sequence[int], chat: bool, system: str | None
    ) -> Sequence[int]:
        if not isinstance(prompt, str):
            return _whole_numbers(prompt)
        if self.tokenizer is None:
            raise TextError(f"{self.name}: no tokenizer in the file; give token ids")
        if chat:
            messages = [{"role": "user", "content": prompt}]
            if system is not None:
                messages.insert(0, {"role": "system", "content": system})
            return prompt_ids(self.tokenizer, messages)
        if system is not None:
            raise RequestError("a system message needs the chat template (chat=True)")
        ids = self.tokenizer.encode(prompt, special=False)
        bos = self.tokenizer.bos_id
        return [bos, *ids] if self.tokenizer.add_bos and bos is not None else ids


def _whole_numbers(ids: Sequence[int] | np.ndarray) -> list[int]:
    array = np.asarray(ids)
    if array.size == 0:
        return []
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise RequestError(
            f"token ids are {array.dtype} of shape {array.shape}, expected a list of whole numbers"
        )
    return [int(i) for i in array]


def _pieces(tokens: Iterator[Generated], decoder: StreamDecoder | None) -> Iterator[Piece]:
    for token in tokens:
        if decoder is None:
            yield Piece("", token.token_id, token.finish_reason)
            continue
        text = decoder.feed(token.token_id)
        if decoder.stopped:
            yield Piece(text, token.token_id, "stop")
            return
        if token.finish_reason is not None:
            text += decoder.finish()
        yield Piece(text, token.token_id, token.finish_reason)


def load(
    path: str | os.PathLike[str],
    backend: str = "reference",
    kv: str = "auto",
    n_ctx: int | None = None,
    n_threads: int | None = None,
    n_slot: int = N_SLOT,
) -> Model:
    """Load a model from a GGUF, a safetensors file, or a folder of safetensors with config.json.

    backend    "cpu": C++ kernels; "reference": plain NumPy, slow and obviously right
    kv         how keys and values are held: "f32", on cpu also "f16"; "auto" is the backend's
               choice, float16 on cpu and float32 on reference
    n_ctx      most tokens of one sequence; None: what the model was trained for
    n_threads  threads of the cpu backend; None: the processors this process may use
    n_slot     sequences that can be held at once

    JuntoError in one line where the file, the model or an argument is not as it must be.
    """
    if backend not in BACKENDS:
        raise RequestError(f"backend {backend!r} is unknown; this build has: {', '.join(BACKENDS)}")
    chosen = BACKENDS[backend]
    if kv not in chosen.kv:
        raise RequestError(f"kv {kv!r} is unknown; backend {backend!r} has: {', '.join(chosen.kv)}")
    blueprint = locate(open_file(Path(path)))
    return assemble(blueprint, chosen.make(n_threads), n_ctx, n_slot, chosen.kv[kv])


def assemble(
    blueprint: Blueprint,
    ops: Ops,
    n_ctx: int | None = None,
    n_slot: int = N_SLOT,
    kv: KVType = np.float32,
) -> Model:
    """Take the weights of a located model and join them with a cache and a tokenizer."""
    cfg, name = blueprint.cfg, blueprint.file.path.name
    if n_ctx is not None and not 1 <= n_ctx <= cfg.n_ctx_train:
        raise RequestError(
            f"n_ctx is {n_ctx:,}, expected 1 to {cfg.n_ctx_train:,}, the context that {name} "
            "was trained for"
        )
    tokenizer = _tokenizer(blueprint)
    cache = blueprint.architecture.make_cache(cfg, n_slot, n_ctx or cfg.n_ctx_train, kv)
    runner = Runner(blueprint.architecture, cfg, take(blueprint, ops), ops, cache)
    notes = (*blueprint.notes, *(tokenizer.notes if tokenizer else ()), *ops.notes)
    return Model(name, cfg, tokenizer, runner, notes)


def _tokenizer(blueprint: Blueprint) -> Tokenizer | None:
    file = blueprint.file
    if isinstance(file, GGUFFile):
        if "tokenizer.ggml.tokens" not in file.metadata:
            return None
        return Tokenizer.from_gguf(file.metadata, file.path.name)
    folder = file.path if file.path.is_dir() else file.path.parent
    path = folder / "tokenizer.json"
    return Tokenizer.from_file(path) if path.exists() else None
