"""A write-once, ordered table of named items."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class UnknownName(ValueError):
    """A name that a registry does not hold; the text is one line with the nearest name that it holds."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the words before a list of known names: the nearest of them, if any is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


class Registry(Generic[T]):
    """Items of one kind by name: file after file, and within a file in the order of their registration."""

    def __init__(self, kind: str, folder: str = "", *, named_by_files: bool = False) -> None:
        """Make an empty registry.

        Args:
            kind: the word of error messages for an item.
            folder: a package whose modules register items; they are imported before the first look-up.
            named_by_files: each of these modules has the name of the only item that it registers.
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
        """Raise UnknownName for a name that is not there, without any import if items are named by files."""
        names = self.names()
        if name not in names:
            raise UnknownName(f"unknown {self.kind} {name!r}: {did_you_mean(name, names)}known: {', '.join(names)}")

    def names(self) -> list[str]:
        """Return every name, without any import if items are named by files."""
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
        """Return every item in order."""
        return list(self._loaded().values())

    def _loaded(self) -> dict[str, T]:
        folder, self._unread = self._unread, ""
        if folder:
            for module in pkgutil.iter_modules(importlib.import_module(folder).__path__):
                importlib.import_module(f"{folder}.{module.name}")
            self._items = dict(sorted(self._items.items(), key=self._place))  # any file may be imported first
        return self._items

    def _place(self, entry: tuple[str, T]) -> str:
        """Return the key of the order of entries: their own name, or that of their module."""
        return entry[0] if self.named_by_files else self._modules[entry[0]]
