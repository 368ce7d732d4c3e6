"""What to do when the reader of standard output has gone away."""

import os
import sys


def forget_stdout() -> None:
    """Send what is still buffered nowhere, so that the exit does not complain about the pipe."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)
