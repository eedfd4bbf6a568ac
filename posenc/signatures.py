"""The parameters of a scheme, read from its source: a scheme imports torch, and a wrong -p is refused without it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from typing import Any

from posenc.parameters import Parameters, parameters_of
from posenc.scheme import SCHEMES

FILE_OF = "posenc.schemes.{}"


def declared_parameters(name: str) -> Parameters:
    """Return the parameters of the scheme `name`, the same as `SCHEMES[name].parameters`, without its imports.

    The signature and the docstring of the scheme's function are run alone, with those lines of its file that they name
    (`Kernel = Literal["log", "power"]`); so nothing else of the file is imported.
    Raises posenc.registry.UnknownName for a scheme that is not there.
    """
    SCHEMES.check(name)
    module = importlib.util.find_spec(FILE_OF.format(name))
    if module is None or module.origin is None:  # registered by somebody else's code, which is loaded
        return SCHEMES[name].parameters
    with open(module.origin, encoding="utf-8") as file:
        source = ast.parse(file.read())
    function = next(node for node in source.body if isinstance(node, ast.FunctionDef) and _registers(node))
    signature = ast.FunctionDef(**{**vars(function), "decorator_list": [], "body": function.body[:1]})
    signature.args.args, signature.returns = [], None  # the spec, and what is made of it
    needed = set(_lines_for(signature, source.body))
    lines = [node for node in source.body if id(node) in needed]
    values: dict[str, Any] = {"__name__": module.name}
    exec(compile(ast.Module([*lines, signature], []), module.origin, "exec"), values)
    return parameters_of(values[function.name])


def _registers(function: ast.FunctionDef) -> bool:
    """Return whether a function has the decorator of a scheme."""
    return any(isinstance(d, ast.Call) and ast.unparse(d.func) == "scheme" for d in function.decorator_list)


def _lines_for(node: ast.AST, body: list[ast.stmt]) -> Iterator[int]:
    """Yield which lines of a file bind the names that a node needs, by identity, and those that these need."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    for line in body:
        if names & set(_bound(line)):
            yield id(line)
            if isinstance(line, (ast.Assign, ast.AnnAssign)) and line.value:
                yield from _lines_for(line.value, body)


def _bound(line: ast.stmt) -> Iterator[str]:
    """Yield the names that a line of a file gives a value."""
    if isinstance(line, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in line.names)
    elif isinstance(line, (ast.Assign, ast.AnnAssign)):
        targets = line.targets if isinstance(line, ast.Assign) else [line.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
