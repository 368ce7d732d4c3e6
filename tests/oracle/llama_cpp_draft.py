"""Logits of the draft head (MTP) by llama.cpp, exact as in `llama_cpp_oracle`.

llama.cpp runs the draft layer in a context of its own, whose batches carry a token and a hidden
state each. The target's context gives the hidden states of every token when it is told to; the
functions for that are exported under C++ names and stand in no header that is installed.
"""

import ctypes
from pathlib import Path
from types import TracebackType
from typing import Any

import llama_cpp
import numpy as np

from tests.oracle.llama_cpp_oracle import Model
from tests.tiny.random_weights import F32, I64


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(llama_cpp.llama_cpp._lib, name)
    function.restype, function.argtypes = result, (ctypes.c_void_p, *arguments)
    return function


_give_hidden = _function(
    "_Z26llama_set_embeddings_nextnP13llama_contextbb", None, ctypes.c_bool, ctypes.c_bool
)
"""(context, on, whether only of rows whose logits are wanted)"""
_hidden = _function(
    "_Z26llama_get_embeddings_nextnP13llama_context", ctypes.POINTER(ctypes.c_float)
)


class DraftModel(Model):
    """A GGUF with a draft head, opened by llama.cpp; a context manager."""

    def __init__(self, path: Path, n_ctx: int = 1024) -> None:
        super().__init__(path, n_ctx, draft=True)
        settings = self._settings(n_ctx)
        settings.ctx_type = llama_cpp.LLAMA_CONTEXT_TYPE_MTP
        self._draft = self._make_context(path, settings)
        self._n_embd: int = llama_cpp.llama_model_n_embd(self._model)
        _give_hidden(self._context, True, False)
        _give_hidden(self._draft, True, True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        llama_cpp.llama_free(self._draft)
        super().__exit__(kind, error, at)

    def draft_logits(self, token_ids: I64) -> F32:
        """The draft's logits over a fresh sequence, float32 [n_tok - 1, n_vocab].

        Row i scores token i + 2, from the hidden state after token i, and token i + 1.
        """
        return self.both(token_ids)[1]

    def both(self, token_ids: I64) -> tuple[F32, F32]:
        """The model's logits [n_tok, n_vocab] and the draft's, as `draft_logits` gives them."""
        n = len(token_ids) - 1
        logits = self.logits(token_ids)
        hidden = np.ctypeslib.as_array(_hidden(self._context), shape=(n + 1, self._n_embd))
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._draft), True)
        batch = llama_cpp.llama_batch_init(n, self._n_embd, 1)  # has room for embeddings alone
        following = (llama_cpp.llama_token * n)(*token_ids[1:].tolist())
        try:
            batch.token = following
            np.ctypeslib.as_array(batch.embd, shape=(n, self._n_embd))[:] = hidden[:-1]
            return logits, self._decode(self._draft, batch, n, 0)
        finally:
            batch.token = None
            llama_cpp.llama_batch_free(batch)
