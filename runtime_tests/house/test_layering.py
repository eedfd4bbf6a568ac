"""Imports go one way: import-linter holds it for import statements, a reader here for names of modules in texts."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.shared import ROOT
from scripts.layout import ROOMS

PACKAGES = {"posenc": "posenc", "posenc_models": "models/posenc_models", "posenc_export": "export/posenc_export"}
MAY_NAME = {
    "posenc": {"posenc"},
    "posenc_models": {"posenc", "posenc_models"},
    "posenc_export": {"posenc", "posenc_models", "posenc_export"},
}
FACTORY = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_][\w.]*")
IMPORTERS = {"import_module", "__import__"}


def linted(project: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the contracts of pyproject.toml over the packages of a folder."""
    folders = [str(project / folder) for folder in ("", "export", "models")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "COLUMNS": "200"}
    lint = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"]
    return subprocess.run(lint, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_import_statements_go_one_way() -> None:
    ran = linted(ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the three packages, to be made wrong."""
    project = tmp_path_factory.mktemp("copy")
    for folder in PACKAGES.values():
        shutil.copytree(ROOT / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__", "*.npz"))
    shutil.copy(ROOT / "pyproject.toml", project)
    return project


WRONG = {
    "posenc/spec.py": "def f():\n    from posenc_models.networks import encoder",
    "models/posenc_models/networks/encoder.py": "import posenc_export.common.errors",
    "export/posenc_export/bundle/folder.py": "from posenc_export.proof import runtimes",
    "export/posenc_export/write/formats/archives.py": "from ...show.plots import curves",
    "export/posenc_export/newroom/__init__.py": "",
    "export/posenc_export/cli/options.py": "def f():\n    from posenc_export.read import inspection, ends",
    "posenc/sincos/rows.py": "import posenc.spec2",
    "posenc/spec2.py": "from posenc import sincos",
}
"""Lines that break a contract; the last two do together."""
BROKEN = {
    "posenc imports nothing that is built on it BROKEN": ["posenc/spec.py"],
    "posenc_models imports nothing of posenc_export BROKEN": ["models/posenc_models/networks/encoder.py"],
    "imports only rooms below it BROKEN": ["export/posenc_export/bundle/folder.py"],
    "rooms below it BROKEN": ["export/posenc_export/write/formats/archives.py"],
    "no file inside BROKEN": ["export/posenc_export/cli/options.py"],
    "posenc_export.newroom": ["export/posenc_export/newroom/__init__.py"],
    "import each other BROKEN": ["posenc/sincos/rows.py", "posenc/spec2.py"],
}


@pytest.mark.parametrize("text", BROKEN)
def test_import_linter_finds_what_breaks_a_contract(copy: Path, text: str) -> None:
    before = {}
    for file in (copy / name for name in BROKEN[text]):
        before[file] = file.read_text(encoding="utf-8") if file.exists() else None
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{before[file] or ''}\n{WRONG[file.relative_to(copy).as_posix()]}\n", encoding="utf-8")
    ran = linted(copy)
    for file, source in before.items():
        file.write_text(source, encoding="utf-8") if source is not None else file.unlink()
    shutil.rmtree(copy / "export/posenc_export/newroom", ignore_errors=True)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert text in ran.stdout


def named(source: str, package: str) -> Iterator[str]:
    """Yield the modules that texts name: arguments of import_module and __import__, and "package.module:factory"."""
    tree = ast.parse(source)
    renamed = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "importlib"
        for alias in node.names
        if alias.name in IMPORTERS
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in IMPORTERS | renamed:
            for value in [*node.args, *(keyword.value for keyword in node.keywords)][:1]:
                text = value.values[0] if isinstance(value, ast.JoinedStr) else value
                if isinstance(text, ast.Constant) and isinstance(text.value, str):  # else nothing is known of it
                    yield absolute(text.value.rstrip("."), package)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and FACTORY.fullmatch(node.value):
            yield node.value.partition(":")[0]


def absolute(name: str, package: str) -> str:
    """Return the whole name of a module: `.a` is a module of the package, `..a` of the package around it."""
    level = len(name) - len(name.lstrip("."))
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *filter(None, [name[level:]])]) if level else name


def wrong_names(module: str, source: str) -> list[str]:
    """Return what a module names although it may not import it; `module` of a package ends in .__init__."""
    top, room = f"{module}..".split(".")[:2]
    wrong = []
    for name in named(source, module.rpartition(".")[0]):
        named_top, named_room = f"{name}..".split(".")[:2]
        if named_top not in PACKAGES:
            continue
        above = named_top == "posenc_export" and room in ROOMS and named_room in ROOMS
        if named_top not in MAY_NAME[top]:
            wrong.append(f"{module} names {name}, of another package")
        elif above and ROOMS.index(named_room) > ROOMS.index(room):
            wrong.append(f"{module} names {name}, of a room above")
    return wrong


def api_imports(module: str, source: str) -> bool:
    """Whether a module imports the Python API, `posenc_export` itself."""
    names = {"posenc_export.export", "posenc_export.validate", "posenc_export.bench", "posenc_export.target"}
    nodes = list(ast.walk(ast.parse(source)))
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = {
        f"{absolute('.' * node.level + (node.module or ''), module.rpartition('.')[0])}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return "posenc_export" in whole or bool(names & parts)


def ours() -> Iterator[tuple[str, str]]:
    """Yield the modules of the three packages with their sources."""
    for package, folder in PACKAGES.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = (package, *file.relative_to(ROOT / folder).with_suffix("").parts)
            yield ".".join(parts), file.read_text(encoding="utf-8")


def test_names_of_modules_in_texts_go_one_way() -> None:
    assert [problem for module, source in ours() for problem in wrong_names(module, source)] == []


def test_only_the_command_line_imports_the_python_api() -> None:
    users = {".".join(module.split(".")[:2]) for module, source in ours() if api_imports(module, source)}
    assert users == {"posenc_export.cli"}
    assert api_imports("posenc_export.show.plots.__init__", "def f():\n    from ... import validate")
    assert api_imports("posenc_export.show.plots.curves", "import posenc_export")
    assert not api_imports("posenc_export.show.plots.curves", "from posenc_export.common import errors")


FROM, USED = "from importlib import import_module", "import importlib"
OTHER, ABOVE = "of another package", "of a room above"


@pytest.mark.parametrize(
    ("module", "source", "text"),
    [
        ("posenc_models.config.read", f"{USED}\nimportlib.import_module('posenc_export.common.errors')", OTHER),
        ("posenc_models.config.read", f"{FROM} as f\nx = lambda: f('posenc_export')", OTHER),
        ("posenc_models.config.read", f"{FROM}\nimport_module(f'posenc_export.{{1}}')", OTHER),
        ("posenc_models.config.read", "__import__(name='posenc_export')", OTHER),
        ("posenc.spec", "BASELINE = {'usual': ['posenc_models.networks.encoder:TextEncoder']}", OTHER),
        ("posenc_export.write.formats.__init__", f"{USED} as i; i.import_module('...show.plots', __package__)", ABOVE),
        ("posenc.spec", "__import__('posenc_export')", OTHER),
    ],
)
def test_a_name_that_goes_the_other_way_is_found(module: str, source: str, text: str) -> None:
    (problem,) = wrong_names(module, source)
    assert text in problem
