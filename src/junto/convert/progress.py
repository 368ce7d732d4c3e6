"""How far a conversion is, told as bytes of tensors written."""

from collections.abc import Callable, Sequence

from junto.formats.out_tensor import Advance, OutTensor

Progress = Callable[[int, int], None]
"""Called with (bytes of tensors written, bytes of all)."""


def counted(tensors: Sequence[OutTensor], progress: Progress | None) -> Advance | None:
    """A counter for writers that tells how much of all is done."""
    if progress is None:
        return None
    total, done = sum(tensor.n_bytes for tensor in tensors), 0
    progress(0, total)

    def advance(n_bytes: int) -> None:
        nonlocal done
        done += n_bytes
        progress(done, total)

    return advance
