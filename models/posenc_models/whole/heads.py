"""What a class looks at, and whether it has hidden states without its head: read from the source of transformers.

`--task feature-extraction` loads the class that AutoModel has for a type. This succeeds where the class with the head
is built around that very class, has its other weights in modules whose names that class has not, and where that class
answers to the main input alone. Nothing is imported for it, and no call is made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from posenc_models.whole.auto_classes import class_of, package
from posenc_models.whole.trials import CHOICES

OPTIONAL = re.compile(
    r"attention_mask|encoder_hidden_states|encoder_attention_mask|mask_time_indices|global_attention_mask|lengths|cache"
    r"|task_type_ids|input_shape_ids|input_pronunciation_ids|mems|perm_mask|target_mapping|input_mask"
)
"""Arguments that models of text or sound answer without, whatever their code asks of them."""
CODES = "num_codebooks"
"""A key of models of which a token is several codes of a sound, and no word."""
NOTED = {"config", "num_labels", "vocab_size"}
"""Attributes that have no weights."""


def has_headless(name: str, config: Mapping[str, Any], main: str) -> bool:
    """Return whether the class of a config's type without a head takes the weights of one with a head.

    Args:
        name: the class with the head.
        config: what its config.json says.
        main: the input that must do alone.
    """
    kind = config["model_type"]
    headless, classes = class_of("AutoModel", kind), _classes(kind)
    if not {headless, name} <= set(classes) or CODES in config:
        return False
    forward = _forward(classes, headless)
    if forward is None or main not in _arguments(forward):
        return False
    takes = _arguments(forward)
    unknown = {one for one in takes if not CHOICES.fullmatch(one) and not OPTIONAL.fullmatch(one)} - {main}
    if not all(_does_without(classes, forward, one, main) for one in unknown):
        return False
    if headless == name:
        return True
    made = dict(_attributes(classes[name], config))
    around = {attribute for attribute, value in made.items() if headless in _names(value)}
    beside = set(made) - around - NOTED
    is_apart = not beside & {attribute for attribute, _ in _attributes(classes[headless], config)}
    in_modules = not any({"Parameter", "Buffer"} & _names(value) for value in made.values())
    return len(around) == 1 and is_apart and in_modules


def main_input(config: Mapping[str, Any], name: str) -> str:
    """Return the first argument of a class's `forward`, which is what it looks at; "" where its code is not known.

    Args:
        config: what its config.json says.
        name: the class.
    """
    return next(iter(arguments_of(config, name)), "")


def arguments_of(config: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the arguments of a class's `forward`, in their order; none where its code is not known.

    Args:
        config: what its config.json says.
        name: the class.
    """
    kind = config.get("model_type")
    forward = _forward(_classes(kind), name) if isinstance(kind, str) else None
    return tuple(_arguments(forward)[1:]) if forward is not None else ()


def is_headless(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether AutoModel has this very class for the type of a config."""
    return class_of("AutoModel", config["model_type"]) == name


@cache
def _classes(kind: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a model type's code, by name: of the folder whose name its own begins with."""
    words = re.split(r"[-_]", kind)
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    place = package()
    folder = next((place / "models" / name for name in names if place and (place / "models" / name).is_dir()), None)
    found: dict[str, ast.ClassDef] = {}
    for file in sorted(folder.glob("modeling_*.py")) if folder is not None else ():
        try:
            module = ast.parse(file.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        found |= {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    return found


def _forward(classes: Mapping[str, ast.ClassDef], name: str) -> ast.FunctionDef | None:
    """Return the `forward` of a class, or that of the first class above that has one."""
    while name in classes:
        forward = _method(classes[name], "forward")
        if forward is not None:
            return forward
        name = next((ast.unparse(base) for base in classes[name].bases), "")
    return None


def _does_without(classes: Mapping[str, ast.ClassDef], forward: ast.FunctionDef, name: str, main: str) -> bool:
    """Return whether a model answers to its main input alone, as far as it depends on another argument.

    It does where that argument has a value by default, where the code asks whether it is None and does not refuse that,
    where it is read only if another one is given, and where it is passed on by its name to a part that does.
    """
    arguments = forward.args
    by_place = dict(zip(reversed([one.arg for one in arguments.args]), reversed(arguments.defaults), strict=False))
    by_name = {one.arg: default for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}
    default = {**by_place, **by_name}.get(name)
    if default is None:
        return False
    if not (isinstance(default, ast.Constant) and default.value is None):
        return True
    if _is_passed_on(forward, name):
        others = [one for node in classes.values() if (one := _method(node, "forward")) is not None]
        takers = [one for one in others if name in _arguments(one) and not _is_passed_on(one, name)]
        return bool(takers) and all(_asks(one, name, main) for one in takers)
    return _asks(forward, name, main) or _is_behind_others(forward, name)


def _asks(forward: ast.FunctionDef, name: str, main: str) -> bool:
    """Return whether code asks whether an argument is None, and does not refuse that beside the main input."""
    for node in ast.walk(forward):
        if isinstance(node, ast.If) and any(isinstance(one, ast.Raise) for line in node.body for one in ast.walk(line)):
            test = dict(_asked(node.test))
            if test.get(name) is True and main not in test:
                return False
    return any(name in dict(_asked(node)) for node in ast.walk(forward) if isinstance(node, ast.Compare))


def _is_passed_on(forward: ast.FunctionDef, name: str) -> bool:
    """Return whether all that code does with an argument is to pass it on by its name."""
    passed = {
        id(word.value) for node in ast.walk(forward) if isinstance(node, ast.Call) for word in node.keywords if word.arg
    }
    read = [one for one in ast.walk(forward) if isinstance(one, ast.Name) and one.id == name]
    return bool(read) and all(id(one) in passed for one in read)


def _asked(test: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the names that a test compares with None, with whether it asks that they are."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and len(node.ops) == 1:
            none = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
            if none and isinstance(node.ops[0], ast.Is | ast.IsNot):
                yield node.left.id, isinstance(node.ops[0], ast.Is)


def _is_behind_others(node: ast.AST, name: str) -> bool:
    """Return whether a name is read only where another one is known not to be None."""
    if isinstance(node, ast.Name):
        return node.id != name or not isinstance(node.ctx, ast.Load)
    inside = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If | ast.IfExp):
        test = dict(_asked(node.test))
        body, other = ([part] if isinstance(part, ast.AST) else part for part in (node.body, node.orelse))
        if False in test.values():  # `is not None`
            inside = [node.test, *other]
        elif True in test.values():
            inside = [node.test, *body]
    return all(_is_behind_others(one, name) for one in inside)


def _arguments(forward: ast.FunctionDef) -> list[str]:
    return [one.arg for one in (*forward.args.args, *forward.args.kwonlyargs)]


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == name), None)


def _attributes(node: ast.ClassDef, config: Mapping[str, Any]) -> Iterator[tuple[str, ast.expr]]:
    """Yield what the constructor of a class puts into it: names, and what they are."""
    constructor = _method(node, "__init__")
    yield from _put(constructor.body if constructor is not None else [], config)


def _put(lines: list[ast.stmt], config: Mapping[str, Any]) -> Iterator[tuple[str, ast.expr]]:
    for line in lines:
        if isinstance(line, ast.If):
            asked = ast.unparse(line.test).removeprefix("config.")
            yield from _put(line.body if config.get(asked, True) else [], config)
            yield from _put(line.orelse, config)
        elif isinstance(line, ast.Assign) and ast.unparse(line.targets[0]).startswith("self."):
            yield ast.unparse(line.targets[0]).removeprefix("self."), line.value


def _names(value: ast.expr) -> set[str]:
    nodes = list(ast.walk(value))
    return {one.id for one in nodes if isinstance(one, ast.Name)} | {
        one.attr for one in nodes if isinstance(one, ast.Attribute)
    }
