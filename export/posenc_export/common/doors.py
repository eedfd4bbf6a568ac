"""A room's door: names that other rooms may use, each imported where it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def door(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return a `__getattr__` for a package.

    Args:
        package: its name.
        names: by the name of a module inside it, the names that the module has, with spaces between.
    """
    modules = {name: module for module, text in names.items() for name in text.split()}

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return get
