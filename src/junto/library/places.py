"""Folders in which models lie, by the environment: the hub's, Ollama's, other programs', ours."""

import os
from collections.abc import Mapping
from pathlib import Path

Environment = Mapping[str, str]


def hub_folder(env: Environment = os.environ) -> Path:
    """The hub's cache, as huggingface_hub finds it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if env.get(name):
            return _path(env[name])
    if env.get("HF_HOME"):
        return _path(env["HF_HOME"]) / "hub"
    return _path(env.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface" / "hub"


def ollama_stores(env: Environment = os.environ) -> list[Path]:
    """Ollama's stores: OLLAMA_MODELS alone where it is set; else the user's and the service's."""
    if env.get("OLLAMA_MODELS"):
        return [_path(env["OLLAMA_MODELS"])]
    return [_path("~/.ollama/models"), Path("/usr/share/ollama/.ollama/models")]


def own_folders(env: Environment = os.environ) -> list[Path]:
    """The folders that JUNTO_MODELS names, separated as in PATH."""
    return [_path(part) for part in env.get("JUNTO_MODELS", "").split(os.pathsep) if part]


def others_folders(env: Environment = os.environ) -> dict[str, list[Path]]:
    """Folders in which other programs keep files, by the program."""
    return {
        "LM Studio": [_path("~/.lmstudio/models"), _path("~/.cache/lm-studio/models")],
        "llama.cpp": [_path(env.get("LLAMA_CACHE") or "~/.cache/llama.cpp")],
    }


def _path(text: str) -> Path:
    return Path(os.path.expandvars(text)).expanduser()
