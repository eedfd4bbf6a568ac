"""Imports go one way: between the packages, between the stages of posenc_export, and never round in posenc."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from helpers.shared import ROOT
from scripts.layout import STAGES

Files = Mapping[str, str]
"""Sources by module name; that of a package ends in .__init__."""

MAY_IMPORT = {
    "posenc": {"posenc"},
    "posenc_models": {"posenc", "posenc_models"},
    "posenc_export": {"posenc", "posenc_export"},
}
FOLDERS = {"posenc": "posenc", "posenc_models": "models/posenc_models", "posenc_export": "export/posenc_export"}
FACTORY = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_][\w.]*")
IMPORTERS = {"import_module", "__import__"}


@dataclass(frozen=True)
class Import:
    """A dotted name that a module imports, whole: of `from a import b` it is a.b; whether at the time of its own."""

    name: str
    at_once: bool


class Reader(ast.NodeVisitor):
    """Every form of import in a module."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.importers = set(IMPORTERS)
        self.at_once = True
        self.imports: list[Import] = []

    def add(self, name: str) -> None:
        self.imports.append(Import(name, self.at_once))

    def later(self, nodes: Iterable[ast.AST]) -> None:
        """Visit what does not run while the module itself is imported."""
        before, self.at_once = self.at_once, False
        for node in nodes:
            self.visit(node)
        self.at_once = before

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self.later(ast.iter_child_nodes(node))
        else:
            super().visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING":
            self.later(node.body)
            node.body = []
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = absolute("." * node.level + (node.module or ""), self.package)
        for alias in node.names:
            self.add(f"{base}.{alias.name}".removesuffix(".*"))
            if base == "importlib" and alias.name in IMPORTERS:
                self.importers.add(alias.asname or alias.name)

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func).rpartition(".")[2] in self.importers:
            for value in [*node.args, *(keyword.value for keyword in node.keywords)][:1]:
                parts = value.values if isinstance(value, ast.JoinedStr) else [value]
                if isinstance(parts[0], ast.Constant) and isinstance(parts[0].value, str):  # else it is no literal
                    self.add(absolute(parts[0].value.rstrip("."), self.package))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and FACTORY.fullmatch(node.value):  # "package.module:factory"
            self.imports.append(Import(node.value.partition(":")[0], at_once=False))


def absolute(name: str, package: str) -> str:
    """Return the whole name of a module: `.a` is one in the package, `..a` one in the package around that."""
    level = len(name) - len(name.lstrip("."))
    if not level:
        return name
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *filter(None, [name[level:]])])


@dataclass(frozen=True)
class Edge:
    """A module imports another, both by their names without .__init__."""

    module: str
    imported: str
    at_once: bool


def edges(files: Files) -> Iterator[Edge]:
    """Yield the imports of our own packages, each of the module that there is; of a function in it, of the module."""
    modules = {name.removesuffix(".__init__") for name in files}
    for name, source in files.items():
        module = name.removesuffix(".__init__")
        reader = Reader(name.rpartition(".")[0])
        reader.visit(ast.parse(source))
        for one in reader.imports:
            parts = one.name.split(".")
            prefixes = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
            if parts[0] in MAY_IMPORT:
                yield Edge(module, next((p for p in prefixes if p in modules), parts[0]), one.at_once)


def stage_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def problems(files: Files) -> list[str]:
    """Return every import that goes another way than the rules say."""
    wrong = []
    order = {stage: i for i, stage in enumerate(STAGES)}
    for edge in edges(files):
        top, imported_top = edge.module.split(".")[0], edge.imported.split(".")[0]
        stage, imported = stage_of(edge.module), stage_of(edge.imported)
        if imported_top not in MAY_IMPORT[top]:
            wrong.append(f"{edge.module} imports {edge.imported}, of another package")
        elif top == imported_top == "posenc_export" and stage and not edge.module.endswith("__main__"):
            if not imported and stage != "cli":
                wrong.append(f"{edge.module} imports the API, which only cli may")
            elif imported and order.get(imported, len(order)) > order.get(stage, -1):
                wrong.append(f"{edge.module} imports {edge.imported}, of a later stage")
    stages = {stage_of(name.removesuffix(".__init__")) for name in files if name.startswith("posenc_export.")}
    wrong += [f"posenc_export.{stage} is no known stage" for stage in sorted(stages - {*STAGES, "", "__main__"})]
    return wrong + [f"round: {' -> '.join(circle)}" for package in MAY_IMPORT for circle in circles(files, package)]


def circles(files: Files, package: str) -> list[list[str]]:
    """Return the circles among the imports of a package that run while it is imported."""
    graph: dict[str, list[str]] = {}
    for edge in edges(files):
        inside = all(name.split(".")[0] == package for name in (edge.module, edge.imported))
        if inside and edge.at_once and edge.module != edge.imported:
            graph.setdefault(edge.module, []).append(edge.imported)
    rounds: list[list[str]] = []
    done: set[str] = set()

    def follow(module: str, path: list[str]) -> None:
        if module in path:
            rounds.append([*path[path.index(module) :], module])
        elif module not in done:
            for imported in graph.get(module, []):
                follow(imported, [*path, module])
            done.add(module)

    for module in graph:
        follow(module, [])
    return rounds


def ours() -> dict[str, str]:
    """Read the three packages."""
    return {
        ".".join((package, *file.relative_to(ROOT / folder).with_suffix("").parts)): file.read_text(encoding="utf-8")
        for package, folder in FOLDERS.items()
        for file in sorted((ROOT / folder).rglob("*.py"))
    }


def test_imports_go_one_way() -> None:
    files = ours()
    assert {"posenc", "posenc_models.encoder", "posenc_export.cli.commands.export"} <= {e.module for e in edges(files)}
    assert Edge("posenc_export.cli.commands.export", "posenc_export", at_once=False) in edges(files)
    assert problems(files) == []


SMALL = {f"{package}.__init__": "" for package in FOLDERS}
SMALL |= {f"posenc_export.{stage}": "" for stage in STAGES if stage not in ("bundle", "cli")}
SMALL |= {"posenc_export.bundle.__init__": "", "posenc_export.bundle.folder": "", "posenc_export.__main__": ""}
SMALL |= {"posenc_export.cli.__init__": "", "posenc_export.cli.tables": ""}
SMALL |= {"posenc.spec": "", "posenc.sincos.__init__": "", "posenc.sincos.rows": "", "posenc_models.encoder": ""}
LATER, OTHER, API = "of a later stage", "of another package", "only cli may"


@pytest.mark.parametrize(
    ("module", "source", "text"),
    [
        ("posenc.spec", "import posenc_export.errors", OTHER),
        ("posenc.spec", "import os, posenc_models as m", OTHER),
        ("posenc.spec", "def f():\n    from posenc_models import encoder", OTHER),
        ("posenc.spec", "if TYPE_CHECKING:\n    from posenc_export import cli\nelse:\n    cli = 0", OTHER),
        ("posenc_models.encoder", "class A:\n    async def f(self): import posenc_export", OTHER),
        ("posenc_export.errors", "import importlib\nimportlib.import_module('posenc_models.encoder')", OTHER),
        ("posenc_export.errors", "from importlib import import_module as f\nx = lambda: f('posenc_models')", OTHER),
        ("posenc_export.errors", "from importlib import import_module\nimport_module(f'posenc_models.{1}')", OTHER),
        ("posenc_export.errors", "__import__(name='posenc_models')", OTHER),
        ("posenc_export.errors", "BASELINE = {'usual': ['posenc_models.encoder:TextEncoder']}", OTHER),
        ("posenc_export.errors", "import posenc_export.bundle.folder", LATER),
        ("posenc_export.bundle.folder", "from posenc_export import runtimes", LATER),
        ("posenc_export.bundle.folder", "from posenc_export.exporter import export_target", LATER),
        ("posenc_export.bundle.folder", "from .. import validation", LATER),
        ("posenc_export.bundle.__init__", "from ..cli.tables import print_report", LATER),
        ("posenc_export.formats", "from . import runtimes", LATER),
        ("posenc_export.formats", "def f():\n    import importlib as i; i.import_module('.plots', __package__)", LATER),
        ("posenc_export.formats", "try:\n    pass\nfinally:\n    if t.TYPE_CHECKING: from .cli import a", LATER),
        ("posenc_export.formats", "def f():\n    import posenc_export", API),
        ("posenc_export.plots", "from posenc_export import export", API),
        ("posenc_export.bundle.folder", "from .. import validate", API),
        ("posenc_export.helpers.__init__", "", "posenc_export.helpers is no known stage"),
        ("posenc.spec", "from posenc.spec2 import a", "round: posenc.spec -> posenc.spec2 -> posenc.spec"),
        ("posenc.sincos.rows", "from . import Method", "round: posenc.sincos -> posenc.sincos.rows -> posenc.sincos"),
        ("posenc.sincos.rows", "if 1:\n    import posenc.sincos", "round: posenc.sincos -> posenc.sincos.rows"),
        ("posenc_export.bundle.folder", "from . import b", "round: posenc_export.bundle -> posenc_export"),
    ],
)  # fmt: skip
def test_each_rule_finds_what_breaks_it(module: str, source: str, text: str) -> None:
    rounds = {"posenc.spec2": "import posenc.spec", "posenc.sincos.__init__": "from .rows import a"}
    files = {**SMALL, **rounds, "posenc_export.bundle.__init__": "from .folder import a"}
    assert problems(files) == []
    (problem,) = problems({**files, module: source})
    assert text in problem


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("posenc_export.__init__", "from posenc_export.cli import main"),
        ("posenc_export.__main__", "from posenc_export.cli import main\nimport posenc_export"),
        (
            "posenc_export.cli.tables",
            "def f():\n    import posenc_export\n    from posenc_export import validate",
        ),
        (
            "posenc_export.cli.tables",
            "from posenc_export import cli, errors\nfrom . import a\nfrom posenc import Spec",
        ),
        ("posenc_models.encoder", "import posenc.spec, torch\nfrom . import other"),
        ("posenc.sincos.rows", "if TYPE_CHECKING: from posenc.sincos import Method"),
        ("posenc.sincos.rows", "def f():\n    from posenc.sincos import Method"),
    ],
)
def test_what_no_rule_forbids_passes(module: str, source: str) -> None:
    assert problems({**SMALL, "posenc.sincos.__init__": "from .rows import a", module: source}) == []
