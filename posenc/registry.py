"""A write-once, ordered table of named things."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class UnknownName(ValueError):
    """A name that a registry does not hold; its text is one line with the nearest name that it does."""


class Registry(Generic[T]):
    """Things of one kind by name, in the order they were registered."""

    def __init__(self, kind: str, folder: str = "") -> None:
        """Name the kind for error messages; the modules of package `folder` are imported before the first look-up."""
        self.kind = kind
        self._unread = folder
        self._items: dict[str, T] = {}

    def add(self, name: str, item: T) -> T:
        """Register `item`; raise ValueError where the name is taken."""
        if name in self._items:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._items[name] = item
        return item

    def __getitem__(self, name: str) -> T:
        """Return the item of that name, or raise UnknownName."""
        items = self._loaded()
        if name not in items:
            near = difflib.get_close_matches(name, items, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UnknownName(f"unknown {self.kind} {name!r}: {hint}known: {', '.join(items)}")
        return items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __contains__(self, name: object) -> bool:
        return name in self._loaded()

    def __len__(self) -> int:
        return len(self._loaded())

    def values(self) -> list[T]:
        """Return every item, in order of registration."""
        return list(self._loaded().values())

    def _loaded(self) -> dict[str, T]:
        folder, self._unread = self._unread, ""
        if folder:
            for module in pkgutil.iter_modules(importlib.import_module(folder).__path__):
                importlib.import_module(f"{folder}.{module.name}")
        return self._items
