"""Names of models: repositories of the hub, what is meant in them, and short names.

    ORG/REPO            the model of a repository; of several GGUF files, one by preference
    ORG/REPO:Q4_K_M     its GGUF file of that type
    ORG/REPO/FILE       one file, or all parts of the model it is a part of
    ...@REVISION        of a branch, a tag or a commit
    gpt-oss:20b         short for a repository; gpt-oss:20b:Q8_0 for a type in it

Nothing here looks at disks or the network.
"""

import re
from dataclasses import dataclass, replace

from junto.errors import LibraryError

SHORT_NAMES = {
    "gpt-oss:20b": "ggml-org/gpt-oss-20b-GGUF",
    "gpt-oss:120b": "ggml-org/gpt-oss-120b-GGUF",
    "qwen3.5:35b": "unsloth/Qwen3.5-35B-A3B-GGUF",
    "qwen3.5:122b": "unsloth/Qwen3.5-122B-A10B-GGUF",
    "qwen3.5:397b": "unsloth/Qwen3.5-397B-A17B-GGUF",
    "smollm2:135m": "bartowski/SmolLM2-135M-Instruct-GGUF",
}
"""Public repositories in GGUF of models that junto runs.

That each exists and holds GGUF files was checked, at the end of 2026, in public source code that
downloads from it (scripts and package recipes, most of which pin a commit or a checksum), not by a
download. Files in a repository may change their names; so none is named here.
"""

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_NAME = re.compile(
    rf"(?P<repo>{_PART}/{_PART})"
    r"(?: : (?P<type>[A-Za-z0-9._-]+) | / (?P<file>[^@:\\]+) )?"
    r"(?: @ (?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]*) )?",
    re.VERBOSE,
)
_HUB = re.compile(r"(?:https?://?)?(?:huggingface|hf)\.co/")  # a Path has one slash of two
_PAGE = re.compile(r"(?:blob|resolve)/(?P<revision>[^/]+)/(?P<file>.+)")
_FILE_ENDS = (".gguf", ".safetensors", ".json")


@dataclass(frozen=True, slots=True)
class Reference:
    """What a name means: a repository and, unless None, a file or a type in it, and a revision."""

    repo: str
    file: str | None = None
    type: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        """The name in the form that is read."""
        inside = f"/{self.file}" if self.file else f":{self.type}" if self.type else ""
        return f"{self.repo}{inside}" + (f"@{self.revision}" if self.revision else "")


def read_name(text: str) -> Reference | None:
    """What a name means; None where it is neither a short name nor one of the hub's."""
    short = _short(text)
    if short is not None:
        return short
    hub = _HUB.match(text)
    found = _NAME.fullmatch(text, hub.end() if hub else 0)
    if found is None or found["repo"].lower().endswith(_FILE_ENDS):
        return None
    reference = Reference(found["repo"], found["file"], found["type"], found["revision"])
    if hub and reference.file and (page := _PAGE.fullmatch(reference.file)):
        reference = replace(reference, file=page["file"], revision=page["revision"])
    inside = (reference.file or "file").split("/") + (reference.revision or "main").split("/")
    return None if {"", ".", ".."} & set(inside) else reference


def demand_name(text: str) -> Reference:
    """What a name means; LibraryError that lists the forms where it means nothing."""
    reference = read_name(text)
    if reference is None:
        raise LibraryError(
            f"{text!r} names no model of the hub; expected ORG/REPO, ORG/REPO:TYPE, ORG/REPO/FILE"
            f" (each with @REVISION or without), or one of {', '.join(SHORT_NAMES)}"
        )
    return reference


def _short(text: str) -> Reference | None:
    key = text.lower()
    if key in SHORT_NAMES:
        return Reference(SHORT_NAMES[key])
    key, _, type_name = key.rpartition(":")
    if key in SHORT_NAMES and re.fullmatch(r"[a-z0-9._-]+", type_name):
        return Reference(SHORT_NAMES[key], type=type_name.upper())
    return None
