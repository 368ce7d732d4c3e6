"""`junto chat`: a conversation in a terminal, or a script of one through a pipe."""

from junto.cli.chat.command import chat

__all__ = ["chat"]
