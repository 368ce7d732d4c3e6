"""What the program says to the shell when it ends."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes; the last two are those of a shell's own SIGINT and SIGPIPE."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    INTERRUPTED = 130
    BROKEN_PIPE = 141
