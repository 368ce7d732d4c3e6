"""The command line: one file a command. Knows people's terminals; leaves all else to `junto`."""

from junto.cli.app import main

__all__ = ["main"]
