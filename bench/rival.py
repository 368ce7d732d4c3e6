"""llama.cpp as a rival: the same steps as ours, with its own best settings.

Weights repacked as it likes, flash attention and KV type by default, float16 keys and values.
"""

from collections.abc import Sequence
from pathlib import Path

import llama_cpp


def version() -> str:
    """The version of the package that carries llama.cpp."""
    return f"llama-cpp-python {llama_cpp.__version__}"


class LlamaCpp:
    """A GGUF opened by llama.cpp for `n_stream` sequences."""

    def __init__(self, path: Path, n_threads: int, n_ctx: int, n_stream: int) -> None:
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = 0
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {path.name}")
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = n_ctx * n_stream
        settings.n_batch, settings.n_ubatch = 2048, 512
        settings.n_seq_max = n_stream
        settings.n_threads = settings.n_threads_batch = n_threads
        self._context = llama_cpp.llama_init_from_model(self._model, settings)
        if not self._context:
            raise RuntimeError(f"llama.cpp makes no context for {path.name}")

    def clear(self) -> None:
        """Forget every sequence."""
        memory = llama_cpp.llama_get_memory(self._context)
        llama_cpp.llama_memory_clear(memory, True)

    def step(self, work: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        """Feed (sequence, position, token ids); logits after each sequence's last token."""
        n = sum(len(ids) for _, _, ids in work)
        batch = llama_cpp.llama_batch_init(n, 0, 1)
        i = 0
        for sequence, pos, ids in work:
            for j, token in enumerate(ids):
                batch.token[i], batch.pos[i] = token, pos + j
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
                batch.logits[i] = j == len(ids) - 1
                i += 1
        batch.n_tokens = n
        status = llama_cpp.llama_decode(self._context, batch)
        llama_cpp.llama_synchronize(self._context)
        llama_cpp.llama_batch_free(batch)
        if status != 0:
            raise RuntimeError(f"llama_decode returned {status}")

    def close(self) -> None:
        """Give the memory back."""
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)
