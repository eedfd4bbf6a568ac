"""What a scheme declares, read from its source: a scheme imports torch, and a wrong option is refused without it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import Any

from posenc.parameters import Parameters, parameters_of
from posenc.scheme import SCHEMES, Unsupported

FILE_OF = "posenc.schemes.{}"


def declared_parameters(name: str) -> Parameters:
    """Return the parameters of the scheme `name`, the same as `SCHEMES[name].parameters`, without its imports.

    The signature and the docstring of the scheme's function are run alone, with those lines of its file that they name
    (`Kernel = Literal["log", "power"]`); so nothing else of the file is imported.
    Raises posenc.registry.UnknownName for a scheme that is not there.
    """
    declared = _declared(name)
    if declared is None:
        return SCHEMES[name].parameters
    module, source, function, _ = declared
    signature = ast.FunctionDef(**{**vars(function), "decorator_list": [], "body": function.body[:1]})
    signature.args.args, signature.returns = [], None  # the spec, and what is made of it
    return parameters_of(_run(module, source, signature)[function.name])


def declared_unsupported(name: str) -> Unsupported:
    """Return what cannot work of the scheme `name`, `SCHEMES[name].unsupported`, read in the same way."""
    declared = _declared(name)
    if declared is None:
        return SCHEMES[name].unsupported
    module, source, _, registration = declared
    reasons = next((keyword for keyword in registration.keywords if keyword.arg == "unsupported"), None)
    if reasons is None:
        return Unsupported()
    line = ast.copy_location(ast.Assign([ast.Name("reasons", ast.Store())], reasons.value), reasons.value)
    value = _run(module, source, ast.fix_missing_locations(line))["reasons"]
    assert isinstance(value, Unsupported)
    return value


def _declared(name: str) -> tuple[ModuleSpec, ast.Module, ast.FunctionDef, ast.Call] | None:
    """Return a scheme's file, its function, and the function's decorator; None for code of others, which is loaded."""
    SCHEMES.check(name)
    module = importlib.util.find_spec(FILE_OF.format(name))
    if module is None or module.origin is None:
        return None
    with open(module.origin, encoding="utf-8") as file:
        source = ast.parse(file.read())
    for node in source.body:
        if isinstance(node, ast.FunctionDef) and (registration := _registration(node)) is not None:
            return module, source, node, registration
    raise LookupError(f"{module.origin} registers no scheme")


def _run(module: ModuleSpec, source: ast.Module, line: ast.stmt) -> dict[str, Any]:
    """Run a line with those of a file that bind its names; return all values by name."""
    needed = set(_lines_for(line, source.body))
    values: dict[str, Any] = {"__name__": module.name}
    lines = [node for node in source.body if id(node) in needed]
    exec(compile(ast.Module([*lines, line], []), str(module.origin), "exec"), values)
    return values


def _registration(function: ast.FunctionDef) -> ast.Call | None:
    """Return the decorator that makes a function a scheme; None where it has none."""
    calls = (each for each in function.decorator_list if isinstance(each, ast.Call))
    return next((call for call in calls if ast.unparse(call.func) == "scheme"), None)


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
