"""Where the tests find their data.

Small files lie in tests/data and are always there. Big ones lie in a folder that JUNTO_TEST_DATA
names (by default shared/data beside the clone) and may be missing; a test that needs one is then
skipped, and the end of the run counts and names them (conftest.py).
"""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def big_data() -> Path:
    """The folder of big data, whether it exists or not."""
    return Path(os.environ.get("JUNTO_TEST_DATA") or REPOSITORY.parent / "shared" / "data")


def find(relative: str) -> Path:
    """Path of a data file or folder, tests/data first; skips the test or module without it."""
    for folder in (REPOSITORY / "tests" / "data", big_data()):
        if (folder / relative).exists():
            return folder / relative
    pytest.skip(f"needs {relative} (JUNTO_TEST_DATA)", allow_module_level=True)
