"""Values of a config with the paths of their keys: what reads a value can say where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LONGEST = 80
"""Letters of a key that a message shows."""
Json = Mapping[str, object]
"""An object of JSON."""


@dataclass(frozen=True)
class Setting:
    """A value of a config and the path of its key, or in words where it comes from; None stands for no value."""

    value: object
    path: str

    def number(self) -> float:
        """Return the value; raise ValueError, with its path, where it is no number above 0."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)) or not 0 < self.value < 2**63:
            raise ValueError(f"{self.path} must be a number above 0, got {short(self.value)}")
        return self.value

    def whole(self) -> int:
        """Return the value as an int; raise ValueError, with its path, where it is no whole number above 0."""
        number = self.number()
        if number != int(number) or number > 2**31:
            raise ValueError(f"{self.path} must be a whole number, got {short(self.value)}")
        return int(number)

    def items(self) -> tuple[Setting, ...]:
        """Return the items of a list, each with its path; raise ValueError, with the list's path, for other values."""
        if not isinstance(self.value, list):
            raise ValueError(f"{self.path} must be a list of whole numbers, got {short(self.value)}")
        return tuple(Setting(item, f"{self.path}[{i}]") for i, item in enumerate(self.value))

    def whole_numbers(self) -> tuple[int, ...]:
        """Return the value as a tuple; raise ValueError, with its path, where it is no list of whole numbers."""
        return tuple(item.whole() for item in self.items())


@dataclass(frozen=True)
class Settings:
    """An object of a config and its path, which is empty for the whole config.

    Args:
        content: the object.
        path: the keys that lead to it, with dots between them.
        absent: what the model's class takes for keys that the object leaves out.
        absent_path: where that is from, in words.
    """

    content: Json
    path: str = ""
    absent: Json = field(default_factory=dict)
    absent_path: str = ""

    def path_of(self, key: str) -> str:
        """Return the path of a key, whether the object has it or not; for a default, where it is from."""
        if self.path.startswith("default"):  # the object itself is a default: its keys stand in no file
            return self.path
        return f"{self.path}.{plain(key)}" if self.path else plain(key)

    def at(self, key: str) -> Setting:
        """Return what stands under a key, or what its absence means."""
        if key not in self.content and key in self.absent:
            return Setting(self.absent[key], self.absent_path)
        return Setting(self.content.get(key), self.path_of(key))

    def first(self, *keys: str) -> Setting | None:
        """Return the first value under one of the keys that is not null; what is written comes before what is not."""
        written = (self.at(key) for key in keys if self.content.get(key) is not None)
        missing = (self.at(key) for key in keys if key not in self.content and key in self.absent)
        return next(written, None) or next(missing, None)

    def nonempty(self, key: str) -> Setting | None:
        """Return what stands under a key, unless it is null, false, 0 or empty."""
        setting = self.at(key)
        return setting if setting.value else None


def plain(key: str) -> str:
    """Return a key as a part of a line: what moves the cursor is escaped, and a long one is cut."""
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in key[:LONGEST])
    return text if len(key) <= LONGEST else f"{text}..."


def short(value: object) -> str:
    """Return a value as error messages show it."""
    text = repr(value)
    return text if len(text) < 40 else f"{text[:36]}..."
