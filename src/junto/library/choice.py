"""Which files of a repository make up the model that is meant, by their names alone.

A model is one GGUF file, or all parts of one; or, where there is no GGUF, the safetensors files of
the top folder with the JSON, templates and vocabularies beside them. Image projectors and
importance matrices are GGUF files too, and no models.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from junto.errors import LibraryError
from junto.library.names import Reference

PREFERENCE = ("Q4_K_M", "MXFP4", "MXFP4_MOE", "Q4_K_S", "Q4_0", "Q4_1", "Q5_K_M", "Q6_K", "Q8_0")
"""Types in the order in which one is taken when none is named: the usual balance of size and
accuracy, MXFP4 where a model was trained in it, then what is nearest above.
"""
N_SHOWN = 8

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})", re.DOTALL)
_TYPE = re.compile(
    r"(?:^|[-._])(?P<type>(?:UD-)?(?:I?Q\d\w*|TQ\d_\d|MXFP4\w*|NVFP4\w*|BF16|FP?16|FP?32))$",
    re.IGNORECASE,
)
_NO_MODEL = ("mmproj", "imatrix")
_BESIDE = (".json", ".jinja", ".txt", "tokenizer.model")
_NOT_BESIDE = ("license.txt", "readme.txt", "notice.txt", "requirements.txt")


@dataclass(frozen=True, slots=True)
class Gguf:
    """One model in GGUF.

    stem    path without suffix and number of the part
    parts   paths in order; one for a model in one file
    n_part  as many as there must be
    """

    stem: str
    parts: tuple[str, ...]
    n_part: int

    @property
    def type(self) -> str | None:
        """The type that its file name ends in, in capitals; None if it tells none."""
        found = _TYPE.search(self.stem.rpartition("/")[2])
        return found["type"].upper() if found else None

    @property
    def is_whole(self) -> bool:
        """Whether all parts are there."""
        return len(self.parts) == self.n_part

    def ends_in(self, type_name: str) -> bool:
        """Whether its name ends in the type, or a folder has it as a name; case does not count."""
        *folders, name = self.stem.upper().split("/")
        wanted = type_name.upper()
        return wanted in folders or name.endswith(tuple(f"{mark}{wanted}" for mark in "-._"))


def ggufs(paths: Iterable[str]) -> list[Gguf]:
    """The models in GGUF among the paths, in the order of their names."""
    groups: dict[tuple[str, int], list[str]] = {}
    for path in sorted(paths):
        name = path.rpartition("/")[2].lower()
        if name.endswith(".gguf") and not any(word in name for word in _NO_MODEL):
            groups.setdefault(_stem(path), []).append(path)
    return [Gguf(stem, tuple(parts), count) for (stem, count), parts in groups.items()]


def safetensors(paths: Iterable[str]) -> list[str]:
    """The model in safetensors among the paths: weights first, then the files beside; or nothing.

    A second copy of the weights in the publisher's own form (consolidated.*) is left out.
    """
    top = sorted(path for path in paths if "/" not in path)
    weights = [path for path in top if path.endswith(".safetensors")]
    usual = [path for path in weights if not path.startswith("consolidated")]
    beside = [p for p in top if p.endswith(_BESIDE) and p.lower() not in _NOT_BESIDE]
    return [*(usual or weights), *beside] if weights else []


def choose(paths: Sequence[str], wanted: Reference) -> list[str]:
    """The paths of the model that is meant, the one to open first (or weights, of safetensors).

    LibraryError, naming what there is, where nothing or more than one is meant.
    """
    models = ggufs(paths)
    if wanted.file is not None:
        return _by_file(paths, models, wanted)
    if models:
        return _whole(_pick(models, wanted), wanted)
    files = safetensors(paths)
    if not files:
        raise LibraryError(f"{wanted.repo}: holds no model in GGUF or safetensors")
    if wanted.type is not None:
        raise LibraryError(
            f"{wanted}: the repository holds safetensors, which come in one type; leave the type"
            " out, or look for a repository in GGUF"
        )
    return files


def _stem(path: str) -> tuple[str, int]:
    stem = path[: -len(".gguf")]
    part = _PART.fullmatch(stem)
    return (part["stem"], int(part["count"])) if part else (stem, 1)


def _by_file(paths: Sequence[str], models: list[Gguf], wanted: Reference) -> list[str]:
    for model in models:
        if wanted.file in model.parts:
            return _whole(model, wanted)
    if wanted.file is not None and wanted.file in paths:
        return [wanted.file]
    there = [model.parts[0] for model in models] or safetensors(paths)
    raise LibraryError(f"{wanted}: no such file in the repository; it holds {_some(there)}")


def _pick(models: list[Gguf], wanted: Reference) -> Gguf:
    if wanted.type is None and len(models) == 1:
        return models[0]
    for type_name in PREFERENCE if wanted.type is None else (wanted.type,):
        matching = [model for model in models if model.ends_in(type_name)]
        exact = [model for model in matching if model.type == type_name.upper()] or matching
        if len(exact) == 1:
            return exact[0]
        if exact:
            names = _some([model.parts[0] for model in exact])
            raise LibraryError(f"{wanted}: several files are {type_name}; name one: {names}")
    types = _some([model.type or model.parts[0] for model in models])
    asked = "none of the usual types" if wanted.type is None else f"no {wanted.type}"
    raise LibraryError(f"{wanted}: there is {asked}; it holds {types}")


def _whole(model: Gguf, wanted: Reference) -> list[str]:
    if not model.is_whole:
        raise LibraryError(
            f"{wanted}: {len(model.parts)} of {model.n_part} parts of {model.stem}.gguf are there"
        )
    return list(model.parts)


def _some(names: list[str]) -> str:
    more = [f"and {len(names) - N_SHOWN} more"] if len(names) > N_SHOWN else []
    return ", ".join([*names[:N_SHOWN], *more])
