"""junto: run Qwen3.5-MoE and gpt-oss from the files people already have.

import junto

model = junto.load("model.gguf")
for piece in model.generate("Once upon a time"):
    print(piece, end="", flush=True)
"""

from junto.model import Model, Piece, load

__all__ = ["Model", "Piece", "__version__", "load"]


def __getattr__(name: str) -> str:
    """`__version__`, looked up when it is asked for: reading metadata slows every start."""
    if name != "__version__":
        raise AttributeError(f"module 'junto' has no attribute {name!r}")
    from importlib.metadata import version

    return version("junto")
