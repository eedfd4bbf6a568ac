"""Which model types the auto classes of transformers have: read from its source, without importing it or torch."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path


def types_of(auto: str) -> frozenset[str]:
    """Return the model types that an auto class, as AutoModelForMaskedLM, has a model for; none where it is not known.

    transformers writes them as tables of names; a release that does it otherwise is asked when it is loaded.
    """
    return frozenset(_table(auto))


def class_of(auto: str, kind: str) -> str:
    """Return the class that an auto class has for a model type; "" where it has none, or has several."""
    return _table(auto).get(kind, "")


def has_class(name: str) -> bool:
    """Return whether a table of transformers' auto classes names a class."""
    return name in _source()[3]


def package() -> Path | None:
    """Return the folder of transformers; None where it is not installed."""
    found = importlib.util.find_spec("transformers")
    places = found.submodule_search_locations if found is not None else None
    return next((Path(place) for place in places or ()), None)


def _table(auto: str) -> dict[str, str]:
    tables, mappings, classes, _ = _source()
    return tables.get(mappings.get(classes.get(auto, ""), ""), {})


@cache
def _source() -> tuple[dict[str, dict[str, str]], dict[str, str], dict[str, str], frozenset[str]]:
    place = package()
    try:
        source = place and (place / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
        return _read(ast.parse(source or ""))
    except (OSError, SyntaxError, ValueError):
        return {}, {}, {}, frozenset()


def _read(module: ast.Module) -> tuple[dict[str, dict[str, str]], dict[str, str], dict[str, str], frozenset[str]]:
    """Return tables by name: the class of each model type, the table of each mapping, the mapping of each class.

    Behind these, every string of the tables: the classes of models are among them.
    """
    strings = {node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and type(node.value) is str}
    tables: dict[str, dict[str, str]] = {}
    mappings: dict[str, str] = {}
    classes: dict[str, str] = {}
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "_model_mapping":
                    classes[node.name] = ast.unparse(line.value)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name, arguments = ast.unparse(node.targets[0]), node.value.args
            if len(arguments) == 2:  # _LazyAutoMapping(CONFIG_MAPPING_NAMES, ..._NAMES)
                mappings[name] = ast.unparse(arguments[1])
            elif arguments and isinstance(arguments[0], ast.List):
                tables[name] = _pairs(arguments[0])
    return tables, mappings, classes, frozenset(strings)


def _pairs(rows: ast.List) -> dict[str, str]:
    """Return pairs of words, "" for several; nothing where a row is no pair: then the table is not known whole."""
    pairs = [row.elts for row in rows.elts if isinstance(row, ast.Tuple) and len(row.elts) == 2]
    if len(pairs) < len(rows.elts):
        return {}
    read = [(ast.literal_eval(kind), ast.literal_eval(name)) for kind, name in pairs]
    return {kind: name if isinstance(name, str) else "" for kind, name in read}
