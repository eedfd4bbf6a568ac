"""Options by kind: each function declares an option from its names, separated by spaces, and its help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import click

from posenc_export.cli.text.words import SeveralWords, WordChoice

LARGEST = 1e9
"""The largest number that an option takes: seconds, GiB or an error."""
Declared: TypeAlias = Callable[[Callable[..., object]], Callable[..., object]]


def switch(names: str, text: str, default: bool | None = False) -> Declared:
    """Declare an option without a value."""
    return click.option(*names.split(), is_flag=True, default=default, help=text)


def number(
    names: str, text: str, default: int | None = None, *, least: int = 1, end: int | None = None, many: bool = False
) -> Declared:
    """Declare an option that takes a whole number, or any number of them."""
    type_ = click.IntRange(least, end)
    return click.option(*names.split(), type=type_, default=default, multiple=many, metavar="N", help=text)


def choice(
    names: str, words: Iterable[str], text: str, default: str | None = None, metavar: str | None = None
) -> Declared:
    """Declare an option that takes a word of those known; a metavar stands for many, which the text then lists."""
    return click.option(*names.split(), type=WordChoice(list(words)), default=default, metavar=metavar, help=text)


class Real(click.FloatRange):
    """A number of at least 0; nan is none, and neither is one that no limit and no error can be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; a UsageError says what was given."""
        number = float(super().convert(value, param, ctx))
        if not number <= LARGEST:  # as of nan
            self.fail(f"it must be a number from 0 to {LARGEST:,.0f}, got {value}", param, ctx)
        return number


def real(names: str, text: str, default: float | None = None, metavar: str = "X") -> Declared:
    """Declare an option that takes a number of at least 0; the help says its default, if it has one."""
    type_ = Real(min=0)
    return click.option(*names.split(), type=type_, default=default, show_default=False, metavar=metavar, help=text)


def several(
    names: str, words: Iterable[str], text: str, default: tuple[str, ...] = (), metavar: str | None = None
) -> Declared:
    """Declare an option that takes words of those known, any number of them, with commas between."""
    known, cls = WordChoice(list(words)), SeveralWords
    return click.option(*names.split(), cls=cls, multiple=True, type=known, default=default, metavar=metavar, help=text)


def named(names: str, text: str, metavar: str = "NAME", *, many: bool = False) -> Declared:
    """Declare an option that takes a text, or any number of them."""
    return click.option(*names.split(), multiple=many, metavar=metavar, help=text)


def path(names: str, text: str, metavar: str = "FILE") -> Declared:
    """Declare an option that takes the path of a file, or of a folder."""
    return click.option(*names.split(), type=click.Path(path_type=Path), metavar=metavar, help=text)


JSON = switch("--json as_json", "Print JSON and nothing else.")
