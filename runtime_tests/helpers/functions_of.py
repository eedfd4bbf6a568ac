"""The functions, the classes and the names of modules, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Module:
    """A source file.

    Attributes:
        functions: By qualified name.
        classes: By name.
        partials: What `NAME = partial(...)` calls, by name.
        names: What names mean, as MODULE:NAME.
    """

    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    partials: dict[str, ast.Call] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)


Modules = Mapping[str, Module]


def read(packages: Mapping[str, Path]) -> dict[str, Module]:
    """Return the modules of some packages."""
    modules = {}
    for package, folder in packages.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *(part for part in parts if part != "__init__")))
            modules[name] = _module(name, ast.parse(path.read_text(encoding="utf-8")))
    return modules


def _module(name: str, tree: ast.Module) -> Module:
    module = Module()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            module.names.update({a.asname or a.name: f"{node.module}:{a.name}" for a in node.names})
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            module.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = node
            methods = (method for method in node.body if isinstance(method, ast.FunctionDef))
            module.functions.update({f"{node.name}.{method.name}": method for method in methods})
        elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("partial("):
            assert isinstance(node.value, ast.Call)
            module.partials[ast.unparse(node.targets[0])] = node.value
    local = (*module.functions, *module.classes, *module.partials)
    module.names.update({own: f"{name}:{own}" for own in local})
    return module


def arguments(function: ast.FunctionDef) -> list[ast.arg]:
    """Return the parameters of a function, in order."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
