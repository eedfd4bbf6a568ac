"""Options that take words: what is near a word that is none of them, several in one, and what was typed."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from posenc_export.errors import BadInput


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a question that names the nearest of the known words, with a space behind it; nothing where none is."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}? " if near else ""


class Choice(click.Choice[str]):
    """One of several words; of a word that is none, the nearest is named first."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return what is wrong with a word."""
        known = [str(choice) for choice in self.choices]
        return f"unknown {str(value)!r}: {nearest(str(value), known)}known: {', '.join(known)}"


class Words(click.Option):
    """An option that may be given several times, and takes several words with commas between."""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return every word, of the option's type."""
        if isinstance(value, list | tuple):
            value = tuple(word.strip() for text in value for word in str(text).split(","))
        return super().type_cast_value(ctx, value)


def check_file(file: Path | None) -> None:
    """Raise BadInput, before the work that it is to show, for a file that cannot be written where it shall lie."""
    if file is not None and not file.parent.is_dir():
        raise BadInput(f"cannot write {file}: there is no folder {file.parent}")


def typed(context: click.Context) -> Iterator[click.Parameter]:
    """Yield what was typed on the command line."""
    for parameter in context.command.params:
        if context.get_parameter_source(parameter.name or "") is click.core.ParameterSource.COMMANDLINE:
            yield parameter


def spelled(parameter: click.Parameter, value: object) -> str:
    """Return the name of an option that has this value: of a switch with two names, the one that stands for it."""
    names = parameter.opts if value or not parameter.secondary_opts else parameter.secondary_opts
    return max(names, key=len)


def command_line(context: click.Context, without: str) -> str:
    """Return the command that was typed, one option left out."""
    words = ["posenc", context.info_name or ""]
    for parameter in typed(context):
        if parameter.name == without:
            continue
        value = context.params[parameter.name or ""]
        for one in value if parameter.multiple else [value]:
            if isinstance(parameter, click.Argument):
                words.append(str(one))
            elif getattr(parameter, "is_flag", False):
                words.append(parameter.opts[0] if one else parameter.secondary_opts[0])
            else:
                words += [parameter.opts[0], str(one)]
    return shlex.join(words)
