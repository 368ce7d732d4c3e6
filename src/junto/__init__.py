"""junto: run Qwen3.5-MoE and gpt-oss from the files people already have.

import junto

model = junto.load("model.gguf")
for event in model.chat([{"role": "user", "content": "Why is the sky blue?"}]):
    print(event.text, end="", flush=True)
"""

from junto.assembly import load
from junto.chat.events import Event
from junto.model import Model
from junto.reply import Piece, Reply
from junto.text import Text, load_text

__all__ = ["Event", "Model", "Piece", "Reply", "Text", "__version__", "load", "load_text"]


def __getattr__(name: str) -> str:
    """`__version__`, looked up when it is asked for: reading metadata slows every start."""
    if name != "__version__":
        raise AttributeError(f"module 'junto' has no attribute {name!r}")
    from importlib.metadata import version

    return version("junto")
