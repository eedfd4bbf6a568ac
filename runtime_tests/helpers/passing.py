"""Through which functions an argument is passed: found by reading sources, without running them.

A name is followed wherever it is bound to the object and passed on: through imports, assignments, closures, `partial`,
fields of dataclasses, methods of annotated classes, and functions that a decorator registers by keyword.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from helpers.functions_of import Module, Modules, arguments

SAME = ("uncalled",)
"""Methods that return the same object again."""
Given = list[tuple[int | str, str]]
"""Arguments by place or name, each with what it is: "whole", or a part."""


@dataclass
class Trail:
    """What was followed.

    Attributes:
        modules: The sources.
        parts: Attributes of the object that are followed, too.
        bound: Which parameters of a function are the object, or a part of it.
        inner: The same of functions inside functions.
        fields: Fields of dataclasses that hold it.
        edges: From which function to which it is passed.
        registered: Functions that are called by an attribute of a record, by the name of that attribute.
    """

    modules: Modules
    parts: tuple[str, ...]
    bound: dict[str, dict[str, str]] = field(default_factory=dict)
    inner: dict[str, dict[str, str]] = field(default_factory=dict)
    fields: dict[tuple[str, str], str] = field(default_factory=dict)
    edges: set[tuple[str, str]] = field(default_factory=set)
    registered: dict[str, list[str]] = field(default_factory=dict)

    def follow(self, start: str, parameter: str) -> None:
        """Follow a parameter of a function until no more functions are reached."""
        self.registered = _registered(self)
        self.bound = {start: {parameter: "whole"}}
        before = -1
        while before != self._size():
            before = self._size()
            for key in [*self.bound, *self._readers()]:
                Walk(self, key).visit_body()

    def _size(self) -> int:
        return sum(map(len, self.bound.values())) + len(self.fields) + len(self.edges)

    def _readers(self) -> list[str]:
        """Return the functions that have a class with such a field among their parameters."""
        owners = {owner for owner, _ in self.fields}
        keys = (f"{name}:{function}" for name, module in self.modules.items() for function in module.functions)
        return [key for key in keys if owners & set(self.types(key).values())]

    def function(self, key: str) -> ast.FunctionDef:
        """Return the definition of a function."""
        module, _, name = key.partition(":")
        return self.modules[module].functions[name]

    def resolve(self, module: Module, node: ast.expr | None) -> str | None:
        """Return what a name of a module means, through imports and re-exports: MODULE:NAME of the project."""
        meaning = module.names.get(node.id) if isinstance(node, ast.Name) else None
        while meaning is not None:
            where, _, name = meaning.partition(":")
            there = self.modules.get(where, Module())
            if name in there.functions or name in there.classes:
                return meaning
            further = there.names.get(name)
            meaning = None if further == meaning else further
        return None

    def types(self, key: str) -> dict[str, str]:
        """Return the classes of the project that parameters are annotated with, that of `self` among them."""
        module, function = self.modules[key.partition(":")[0]], self.function(key)
        types = {}
        for argument in arguments(function):
            note = argument.annotation
            if isinstance(note, ast.Constant) and isinstance(note.value, str):
                note = ast.parse(note.value, mode="eval").body
            meaning = self.resolve(module, note.left if isinstance(note, ast.BinOp) else note)
            if meaning is not None and self.is_class(meaning):
                types[argument.arg] = meaning
        owner, _, method = key.rpartition(".")
        if ":" in owner and method and arguments(function):
            types.setdefault(arguments(function)[0].arg, owner)
        return types

    def is_class(self, meaning: str) -> bool:
        """Return whether something is a class of the project."""
        module, _, name = meaning.partition(":")
        return name in self.modules[module].classes


def _registered(trail: Trail) -> dict[str, list[str]]:
    """Return the functions that decorators register: by the keyword that gives them, or the name they are kept by."""
    registered: dict[str, list[str]] = {}
    for name, module in trail.modules.items():
        for key, function in module.functions.items():
            for call in (node for node in function.decorator_list if isinstance(node, ast.Call)):
                maker, given = _maker(trail, module, call)
                kept = _kept_by(trail, maker) if maker else ""
                if kept:
                    registered.setdefault(kept, []).append(f"{name}:{key}")
                for argument, meaning in given.items() if maker else ():
                    if not trail.is_class(meaning):
                        registered.setdefault(argument, []).append(meaning)
    return {name: list(dict.fromkeys(functions)) for name, functions in registered.items()}


def _maker(trail: Trail, module: Module, call: ast.Call) -> tuple[str | None, dict[str, str]]:
    """Return what a decorator calls, through `partial`, and the functions and classes that it is given by keyword."""
    named = ((keyword.arg, trail.resolve(module, keyword.value)) for keyword in call.keywords)
    given = {name: meaning for name, meaning in named if name and meaning}
    held = module.names.get(call.func.id, "") if isinstance(call.func, ast.Name) else ""
    there = trail.modules.get(held.partition(":")[0], Module())
    made = there.partials.get(held.partition(":")[2])
    if made is None:
        return trail.resolve(module, call.func), given
    maker, defaults = _maker(trail, there, ast.Call(made.args[0], [], made.keywords))
    return maker, defaults | given


def _kept_by(trail: Trail, maker: str) -> str:
    """Return the name that a decorator keeps a function by: its parameter, in `__call__` or a function inside."""
    if trail.is_class(maker):
        called = trail.modules[maker.partition(":")[0]].functions.get(f"{maker.partition(':')[2]}.__call__")
        return called.args.args[1].arg if called else ""
    inner = (node for node in trail.function(maker).body if isinstance(node, ast.FunctionDef))
    return next((node.args.args[0].arg for node in inner if node.args.args), "")


class Walk(ast.NodeVisitor):
    """One reading of a function's body: binds names, notes what is passed on to which function."""

    def __init__(self, trail: Trail, key: str) -> None:
        self.trail, self.key = trail, key
        self.module = trail.modules[key.partition(":")[0]]
        self.types = trail.types(key)
        self.bound = dict(trail.bound.get(key, {}))
        self.local: dict[str, ast.FunctionDef] = {}

    def visit_body(self) -> None:
        """Read the body."""
        for statement in self.trail.function(self.key).body:
            self.visit(statement)

    def kind(self, node: ast.expr | None) -> str | None:
        """Return what part of the object an expression is, if it is one."""
        if isinstance(node, ast.Name):
            return self.bound.get(node.id)
        if isinstance(node, ast.Attribute):
            if self.kind(node.value) == "whole" and node.attr in self.trail.parts:
                return node.attr
            return self.trail.fields.get((self.owner(node) or "", node.attr))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME:
            return self.kind(node.func.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "replace" and node.args:
            return self.kind(node.args[0])
        return None

    def owner(self, node: ast.Attribute) -> str | None:
        """Return the class of what an attribute is read of."""
        return self.types.get(node.value.id) if isinstance(node.value, ast.Name) else None

    def visit_Assign(self, node: ast.Assign) -> None:
        """Bind names, alone or in tuples."""
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for left, right in pairs:
                self._bind(left, right)
        self.generic_visit(node)

    def _bind(self, left: ast.expr, right: ast.expr) -> None:
        kind = self.kind(right)
        if isinstance(left, ast.Name) and kind is not None:
            self.bound[left.id] = kind
        elif isinstance(left, ast.Name) and isinstance(right, ast.Call):
            meaning = self.trail.resolve(self.module, right.func)
            if meaning is not None and self.trail.is_class(meaning):
                self.types[left.id] = meaning
        elif isinstance(left, ast.Attribute) and kind is not None:
            self.trail.fields[self.owner(left) or "", left.attr] = kind

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Read a function inside: it sees the names of the outer one, but for its own parameters."""
        self.local[node.name] = node
        own, outer = {argument.arg for argument in arguments(node)}, self.bound
        self.bound = {name: kind for name, kind in outer.items() if name not in own}
        self.bound |= self.trail.inner.get(f"{self.key}.{node.name}", {})
        self.generic_visit(node)
        self.bound = outer

    def visit_Call(self, node: ast.Call) -> None:
        """Note what is passed on."""
        self.generic_visit(node)
        function, args = node.func, node.args
        if isinstance(function, ast.Name) and function.id == "partial" and args:
            function, args = args[0], args[1:]
        passed: list[tuple[int | str, str | None]] = [(i, self.kind(argument)) for i, argument in enumerate(args)]
        passed += [(keyword.arg, self.kind(keyword.value)) for keyword in node.keywords if keyword.arg]
        given: Given = [(where, kind) for where, kind in passed if kind is not None]
        if given and isinstance(function, ast.Name) and function.id in self.local:
            inner = self.trail.inner.setdefault(f"{self.key}.{function.id}", {})
            inner.update(_by_name(given, [argument.arg for argument in arguments(self.local[function.id])]))
            self.trail.edges.add((self.key, f"{self.key}.{function.id}"))
        for callee, skipped in self._callees(function) if given else ():
            self._pass(callee, skipped, given)

    def _callees(self, function: ast.expr) -> Iterator[tuple[str, int]]:
        """Yield what a call may reach, and how many first parameters are not among its arguments."""
        meaning = self.trail.resolve(self.module, function)
        if meaning is not None:
            yield meaning, 0
        elif isinstance(function, ast.Attribute):
            module, _, name = (self.owner(function) or "").partition(":")
            if module and f"{name}.{function.attr}" in self.trail.modules[module].functions:
                yield f"{module}:{name}.{function.attr}", 1
            else:
                yield from ((meaning, 0) for meaning in self.trail.registered.get(function.attr, ()))

    def _pass(self, callee: str, skipped: int, given: Given) -> None:
        """Note that a function receives the object, or that a dataclass holds it."""
        module, _, name = callee.partition(":")
        if self.trail.is_class(callee) and f"{name}.__init__" not in self.trail.modules[module].functions:
            body = self.trail.modules[module].classes[name].body
            names = [n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
            self.trail.fields.update({(callee, held): kind for held, kind in _by_name(given, names).items()})
        else:
            callee, skipped = (f"{callee}.__init__", 1) if self.trail.is_class(callee) else (callee, skipped)
            names = [argument.arg for argument in arguments(self.trail.function(callee))][skipped:]
            self.trail.bound.setdefault(callee, {}).update(_by_name(given, names))
        self.trail.edges.add((self.key, callee))


def _by_name(given: Iterable[tuple[int | str, str]], names: list[str]) -> dict[str, str]:
    """Return arguments by the names of parameters."""
    return {
        where if isinstance(where, str) else names[where]: kind
        for where, kind in given
        if isinstance(where, str) or where < len(names)
    }
