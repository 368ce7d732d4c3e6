"""A program's peak is its own, whoever started it."""

import subprocess
import sys

import numpy as np

from tests.data_dir import REPOSITORY
from tests.peak_memory import peak_bytes

CHILD = "from tests.peak_memory import peak_bytes; print(peak_bytes())"


def test_a_large_parent_does_not_hide_what_its_child_takes() -> None:
    """One bound failed, and others could not fail, because children told their parent's peak."""
    held = np.ones(200 << 20, np.uint8)
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert peak_bytes() > held.nbytes
    assert 1 << 20 < int(done.stdout) < 100 << 20
