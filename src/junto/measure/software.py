"""Which versions run: of junto and its build, of Python, of the packages it stands on."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from junto import _kernels

PACKAGES = ("junto", "numpy", "tokenizers", "jinja2", "typer", "rich")


def versions() -> dict[str, str]:
    """Versions by name; "missing" for a package that is not installed."""
    return {
        **{name: _version(name) for name in PACKAGES},
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "kernels": _kernels.build(),
        "commit": commit() or "unknown",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def commit() -> str | None:
    """The commit of the source this runs from, with + for uncommitted changes; None elsewhere."""
    folder = Path(__file__).resolve().parents[3]
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
