"""Whether a class with a head has hidden states to give without it: read from the source of transformers.

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
"""Arguments that models of text or sound answer without."""
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
    if headless == name or not {headless, name} <= set(classes) or CODES in config:
        return False
    takes = _takes(classes, headless)
    others = {one for one in takes if one != main and not CHOICES.fullmatch(one) and not OPTIONAL.fullmatch(one)}
    made = dict(_attributes(classes[name], config))
    around = {attribute for attribute, value in made.items() if headless in _names(value)}
    beside = set(made) - around - NOTED
    is_apart = not beside & {attribute for attribute, _ in _attributes(classes[headless], config)}
    in_modules = not any("Parameter" in _names(value) for value in made.values())
    return main in takes and not others and len(around) == 1 and is_apart and in_modules


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


def _takes(classes: Mapping[str, ast.ClassDef], name: str) -> list[str]:
    """Return the arguments of a class's `forward`, or of that of the first class above that has one."""
    while name in classes:
        forward = _method(classes[name], "forward")
        if forward is not None:
            return [one.arg for one in (*forward.args.args, *forward.args.kwonlyargs) if one.arg != "self"]
        name = next((ast.unparse(base) for base in classes[name].bases), "")
    return []


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
