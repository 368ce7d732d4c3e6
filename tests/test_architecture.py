"""Imports go downward only, and a model file reads alone.

The layers are those of docs/architecture.md. The rules are checked on syntax trees, so an import
inside a function counts as well. A new package must be given its layer here.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.data_dir import REPOSITORY

# Low to high; packages of one row may not import each other.
ROWS = (
    {"errors", "memory", "_kernels"},
    {"formats"},
    {"ops"},
    {"cache"},
    {"models", "quantize"},
    {"chat", "engine"},
    {"text", "reply", "backends", "convert", "memory_plan"},
    # measure looks on at a runner, however the facade came by it; library finds and fetches files
    # for commands, which hand paths to the facade: neither knows the other.
    {"model", "measure", "inspection", "library"},
    {"assembly"},
    {"server"},
    {""},  # junto/__init__.py, the names that users import
    {"cli"},
    {"__main__"},
)
LAYERS = {name: height for height, row in enumerate(ROWS) for name in row}
# Oracles and GPU libraries: never imported by the core, not even inside a function.
FOREIGN = {"gguf", "llama_cpp", "safetensors", "torch", "transformers", "triton"}
GPU_BACKEND = "junto.ops.triton"
BACKENDS = {"junto.ops.cpu", "junto.ops.reference", GPU_BACKEND}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module: who imports it, where, and its name in full."""

    importer: str
    place: str
    target: str


def module_name(path: Path, root: Path) -> str:
    """`junto.ops.views` for junto/ops/views.py below root; a package is named without __init__."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_paths(root: Path) -> dict[str, Path]:
    """Every module of the package by name; junto/demo holds data."""
    paths = sorted([*root.glob("junto/**/*.py"), *root.glob("junto/**/*.pyi")])
    demo = root / "junto" / "demo"
    return {module_name(path, root): path for path in paths if demo not in path.parents}


def base_of(node: ast.ImportFrom, importer: str, is_package: bool) -> str:
    """The module named after `from`, with leading dots resolved."""
    if node.level == 0:
        return node.module or ""
    parts = importer.split(".")
    parents = parts[: len(parts) - node.level + is_package]
    return ".".join([*parents, *([node.module] if node.module else [])])


def targets_of(node: ast.AST, importer: str, is_package: bool, modules: set[str]) -> list[str]:
    """The modules that one statement imports; `from package import module` counts as the module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = base_of(node, importer, is_package)
        names = [f"{base}.{alias.name}" for alias in node.names]
        return sorted({name if name in modules else base for name in names})
    return []


def all_imports(root: Path) -> Iterator[Import]:
    """Every import statement of the package below root."""
    paths = module_paths(root)
    for importer, path in paths.items():
        is_package = path.stem == "__init__"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for target in targets_of(node, importer, is_package, set(paths)):
                place = f"{path.relative_to(root)}:{getattr(node, 'lineno', 0)}"
                yield Import(importer, place, target)


def is_within(module: str, package: str) -> bool:
    """Whether module is package or lies in it."""
    return module == package or module.startswith(f"{package}.")


def part_of(module: str) -> str:
    """`ops` for junto.ops.views, and the empty name for junto itself."""
    return module.partition(".")[2].partition(".")[0]


def architectures(root: Path) -> set[str]:
    """The model files that declare ARCHITECTURES at their top level."""
    return {
        module_name(path, root)
        for path in root.glob("junto/models/*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name) and name.id == "ARCHITECTURES"
    }


def fault_of(found: Import, model_files: set[str]) -> str | None:
    """Why an import is wrong, or None."""
    if found.target.partition(".")[0] in FOREIGN:
        return None if is_within(found.importer, GPU_BACKEND) else "the core does without it"
    if not is_within(found.target, "junto"):
        return None
    importer, target = part_of(found.importer), part_of(found.target)
    if importer == target:
        siblings = {found.importer, found.target} <= model_files
        return "a model file never imports another" if siblings else None
    if importer not in LAYERS or target not in LAYERS:
        return None
    if LAYERS[target] >= LAYERS[importer]:
        return "imports go downward only"
    if importer == "cache" and any(is_within(found.target, backend) for backend in BACKENDS):
        return "the cache knows no backend"
    return None


def faults(root: Path) -> list[str]:
    """One line for each wrong import and each package without a layer."""
    model_files = architectures(root)
    lines = [
        f"{found.place}: {found.importer} imports {found.target}: {fault}"
        for found in all_imports(root)
        if (fault := fault_of(found, model_files))
    ]
    homeless = {part_of(name) for name in module_paths(root)} - set(LAYERS)
    return lines + [f"junto/{name}: not in the table of layers" for name in sorted(homeless)]


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / "junto" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "junto" / name).write_text(text)
    return root


def test_package_keeps_the_import_direction() -> None:
    assert faults(REPOSITORY / "src") == []


def test_checker_sees_the_files_of_the_package() -> None:
    assert {"junto.errors", "junto._kernels"} <= set(module_paths(REPOSITORY / "src"))


def test_sound_tree_has_no_faults(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from junto.model import load\n",
        "__main__.py": "from junto.cli import main\n",
        "cli/__init__.py": "import numpy\nimport junto\nfrom . import run\n",
        "cli/run.py": "import junto.model\n",
        "model.py": "from junto import chat, engine\n",
        "chat/__init__.py": "",
        "engine/__init__.py": "from junto.models import registry\n",
        "models/registry.py": "from junto.models import alpha, beta\n",
        "models/alpha.py": "from junto.ops.views import View\nARCHITECTURES = ('alpha',)\n",
        "models/beta.py": "ARCHITECTURES: tuple[str, ...] = ('beta',)\n",
        "cache/__init__.py": "from junto.ops.views import View\n",
        "ops/__init__.py": "",
        "ops/reference.py": "from .views import View\nfrom ..formats import gguf\n",
        "ops/triton/__init__.py": "import torch\n",
        "ops/views.py": "class View: ...\n",
        "formats/gguf.py": "from junto.errors import FormatError\n",
        "errors.py": "class FormatError(Exception): ...\n",
        "demo/anything.py": "import junto.cli, torch\n",
    }
    assert faults(write_tree(tmp_path, files)) == []


def test_each_kind_of_wrong_import_is_named_with_its_place(tmp_path: Path) -> None:
    files = {
        "cache/kv.py": "from junto.ops import reference\n",
        "chat/__init__.py": "\ndef late() -> None:\n    import junto.engine\n",
        "engine/__init__.py": "from .. import chat\n",
        "errors.py": "import junto\n",
        "extra/thing.py": "",
        "formats/gguf.py": "from junto.ops.views import View\n",
        "models/alpha.py": "from .beta import Config\nARCHITECTURES = ('alpha',)\n",
        "models/beta.py": "def f() -> None:\n    from torch import nn\nARCHITECTURES = ('beta',)\n",
        "ops/reference.py": "import junto.cache\n",
        "ops/views.py": "",
    }
    assert faults(write_tree(tmp_path, files)) == [
        "junto/cache/kv.py:1: junto.cache.kv imports junto.ops.reference: "
        "the cache knows no backend",
        "junto/chat/__init__.py:3: junto.chat imports junto.engine: imports go downward only",
        "junto/engine/__init__.py:1: junto.engine imports junto.chat: imports go downward only",
        "junto/errors.py:1: junto.errors imports junto: imports go downward only",
        "junto/formats/gguf.py:1: junto.formats.gguf imports junto.ops.views: "
        "imports go downward only",
        "junto/models/alpha.py:1: junto.models.alpha imports junto.models.beta: "
        "a model file never imports another",
        "junto/models/beta.py:2: junto.models.beta imports torch: the core does without it",
        "junto/ops/reference.py:1: junto.ops.reference imports junto.cache: "
        "imports go downward only",
        "junto/extra: not in the table of layers",
    ]


def test_every_module_has_its_sentence_in_the_architecture_page() -> None:
    page = (REPOSITORY / "docs" / "architecture.md").read_text()
    package = REPOSITORY / "src" / "junto"
    modules = [path.relative_to(package).with_suffix("") for path in package.rglob("*.py")]
    named = [module.as_posix() for module in modules if module.name != "__init__"]
    assert len(named) > 50
    assert [name for name in named if f"`{name}`" not in page] == []
