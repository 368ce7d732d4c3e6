"""Logits by llama.cpp through its C interface: float32 KV cache, no flash attention, two threads.

`llama_cpp.Llama` hides the settings that make it exact, so this calls the C functions themselves.
Knows nothing of `junto`.
"""

import ctypes
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import llama_cpp
import numpy as np

from tests.tiny.random_weights import F32, I64

LOG_LEVEL_ERROR = 4  # GGML_LOG_LEVEL_ERROR, which llama_cpp does not name


def versions() -> dict[str, str]:
    """What computed the numbers."""
    return {"llama_cpp_python": llama_cpp.__version__}


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _keep_errors(level: int, text: bytes, _: Any) -> None:
    if level == LOG_LEVEL_ERROR:
        print(text.decode(errors="replace"), end="")


class Model:
    """A GGUF file opened by llama.cpp; a context manager.

    The draft layer stays out unless `draft` wants it. RuntimeError if llama.cpp does not load the
    file, as it does not where a draft layer is counted and missing.
    """

    def __init__(self, path: Path, n_ctx: int = 1024, *, draft: bool = False) -> None:
        llama_cpp.llama_log_set(_keep_errors, None)
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = 0
        parameters.use_extra_bufts = False  # no repacked weights: the plain kernels
        parameters.load_mtp = draft
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {path.name}")
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.n_vocab: int = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._context = self._make_context(path, self._settings(n_ctx))

    def _make_context(self, path: Path, settings: Any) -> Any:
        context = llama_cpp.llama_init_from_model(self._model, settings)
        if not context:
            raise RuntimeError(f"llama.cpp makes no context for {path.name}")
        return context

    @staticmethod
    def _settings(n_ctx: int) -> Any:
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = settings.n_batch = settings.n_ubatch = n_ctx
        settings.n_threads = settings.n_threads_batch = 2
        settings.type_k = settings.type_v = llama_cpp.GGML_TYPE_F32
        settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.offload_kqv = settings.op_offload = False
        settings.swa_full = True
        return settings

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def clear(self) -> None:
        """Forget every token."""
        memory = llama_cpp.llama_get_memory(self._context)
        llama_cpp.llama_memory_clear(memory, True)

    def logits(self, token_ids: I64) -> F32:
        """Logits after every token of a fresh sequence, float32 [n_tok, n_vocab]."""
        self.clear()
        return self.append(token_ids, 0)

    def append(self, token_ids: I64, pos: int) -> F32:
        """Logits after each of `token_ids`, which continue the sequence at position `pos`."""
        batch = llama_cpp.llama_batch_init(len(token_ids), 0, 1)
        try:
            for i, token in enumerate(token_ids.tolist()):
                batch.token[i] = token
            return self._decode(self._context, batch, len(token_ids), pos)
        finally:
            llama_cpp.llama_batch_free(batch)

    def _decode(self, context: Any, batch: Any, n: int, pos: int) -> F32:
        """Logits [n, n_vocab] of the `n` rows of a batch whose inputs are filled in."""
        batch.n_tokens = n
        for i in range(n):
            batch.pos[i], batch.logits[i] = pos + i, 1
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        status = llama_cpp.llama_decode(context, batch)
        if status != 0:
            raise RuntimeError(f"llama_decode of {n} tokens at {pos} returned {status}")
        flat = llama_cpp.llama_get_logits(context)
        return np.array(np.ctypeslib.as_array(flat, shape=(n, self.n_vocab)), np.float32)

    def tokenize(self, text: str) -> list[int]:
        """Ids of a text: no BOS, and nothing in it read as a special token."""
        data = text.encode()
        room = len(data) + 8
        ids = (llama_cpp.llama_token * room)()
        n = llama_cpp.llama_tokenize(self._vocab, data, len(data), ids, room, False, False)
        if n < 0:
            raise RuntimeError(f"llama_tokenize wants room for {-n} ids")
        return list(ids[:n])

    def piece(self, token: int) -> bytes:
        """The bytes of a token."""
        buffer = ctypes.create_string_buffer(256)
        n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, True)
        return buffer.raw[: max(n, 0)]
