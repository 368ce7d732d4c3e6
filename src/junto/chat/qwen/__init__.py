"""Qwen's dialogue: the markup of Qwen3.5, Qwen3 and Qwen3-Coder, written and read."""

from junto.chat.qwen.dialogue import Qwen

__all__ = ["Qwen"]
