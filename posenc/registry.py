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
    """Things of one kind by name: file after file, in one file in the order they were registered."""

    def __init__(self, kind: str, folder: str = "", *, named_by_files: bool = False) -> None:
        """Name the kind for error messages; the modules of package `folder` are imported before the first look-up.

        Args:
            named_by_files: each module there is called as the one thing that it registers.
        """
        self.kind = kind
        self.named_by_files = named_by_files
        self._unread = folder
        self._items: dict[str, T] = {}
        self._modules: dict[str, str] = {}

    def add(self, name: str, item: T, module: str = "") -> T:
        """Register `item` of a module; raise ValueError where the name is taken."""
        if name in self._items:
            raise ValueError(f"{self.kind} {name!r} is registered twice")
        self._items[name] = item
        self._modules[name] = module
        return item

    def __getitem__(self, name: str) -> T:
        """Return the item of that name, or raise UnknownName."""
        self.check(name)
        return self._loaded()[name]

    def check(self, name: str) -> None:
        """Raise UnknownName for a name that is not there: without any import, where files are called by their names."""
        names = self.names()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UnknownName(f"unknown {self.kind} {name!r}: {hint}known: {', '.join(names)}")

    def names(self) -> list[str]:
        """Return every name; nothing is imported for that where files are called by them."""
        if not (self._unread and self.named_by_files):
            return list(self._loaded())
        package = importlib.import_module(self._unread)
        return list(dict.fromkeys([*self._items, *(module.name for module in pkgutil.iter_modules(package.__path__))]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __contains__(self, name: object) -> bool:
        return name in self._loaded()

    def __len__(self) -> int:
        return len(self._loaded())

    def values(self) -> list[T]:
        """Return every item, in their order."""
        return list(self._loaded().values())

    def _loaded(self) -> dict[str, T]:
        folder, self._unread = self._unread, ""
        if folder:
            for module in pkgutil.iter_modules(importlib.import_module(folder).__path__):
                importlib.import_module(f"{folder}.{module.name}")
            self._items = dict(sorted(self._items.items(), key=self._place))  # whatever was imported first
        return self._items

    def _place(self, entry: tuple[str, T]) -> str:
        """Return what entries are put in order by: their own name, or that of their module."""
        return entry[0] if self.named_by_files else self._modules[entry[0]]
