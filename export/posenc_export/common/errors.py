"""Errors that users see: one line each, and the exit status of a command."""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import ParamSpec, TypeVar
from unicodedata import category

import click

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
STEERING = ("Cc", "Cf", "Zl", "Zp", "Cs")
"""Unicode categories that show nothing themselves: control, format, separators of lines, surrogates."""
BEGINS_COMMAND = re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE)
"""The beginning of a workflow command, as `::stop-commands::`; GitHub's runner finds it behind spaces, too."""
HOLDS_COMMAND = re.compile(r"#(?=#[\w.]*\[)")
"""The beginning of a command anywhere in a line: `##[stop-commands]` for GitHub, `##vso[` for others."""
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""Escape codes by which libraries colour their errors, on a terminal or not."""


def decoded(text: str) -> str:
    """Return a text with bytes that the locale could not decode, as in a file's name, read as UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return text


def unsteered(text: str) -> str:
    """Return a text in which characters that steer a terminal, but for line ends, are escaped as in Python."""
    # names, notes and error texts come from bundles that anybody made: they must not move the cursor, nor hide lines
    return "".join(
        c if c == "\n" or category(c) not in STEERING else c.encode("unicode_escape").decode() for c in decoded(text)
    )


def printable(text: str) -> str:
    """Return a text that steers no terminal, and in which no build server finds a command for itself."""
    return BEGINS_COMMAND.sub(r"\1\\x3a", HOLDS_COMMAND.sub(r"\\x23", unsteered(text)))


def one_line(text: str) -> str:
    """Return a text as one line that may be printed: a second line would look like one of the tool's own."""
    return printable(text.replace("\n", "\\n"))


class PosencError(click.ClickException):
    """A failure that is said in one line; below it may stand the text that it is about, with a caret under the place.

    Attributes:
        in_python: The same for callers from Python, with keyword arguments in the place of options.
        has_lines: Whether this tool has laid the text out in several lines, each of which holds no foreign line end.
    """

    in_python = ""
    has_lines = False

    def __str__(self) -> str:
        return self.in_python or self.message

    def format_message(self) -> str:
        """Return the text as it may be printed on a terminal: a second line would look like one of the tool's own."""
        return printable(self.message) if self.has_lines else one_line(self.message)


def worded(
    words: Callable[[str], str],
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Have the errors of the decorated function say, to callers from Python, what `words` makes of their texts."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(function)
        def call(*args: Arguments.args, **values: Arguments.kwargs) -> Result:
            try:
                return function(*args, **values)
            except PosencError as error:
                error.in_python = words(error.message)
                raise

        return call

    return decorate


class BadInput(PosencError):
    """The request makes no sense, or cannot be read: exit status 2."""

    exit_code = 2


class Unavailable(PosencError):
    """A required runtime cannot run here: exit status 3."""

    exit_code = 3


class ExportFailed(PosencError):
    """The module could not be turned into a graph that holds for what was asked: exit status 4."""

    exit_code = 4


class OpsetFailed(ExportFailed):
    """A program could not be written at an opset, but perhaps at a newer one: exit status 4."""


class ToolFailed(PosencError):
    """The tool itself failed: a full disk, no memory left, a bug: exit status 5."""

    exit_code = 5


class NoReference(Exception):
    """A call has no float64 reference; the text says which operator is the reason, and why."""


class Overloaded(ToolFailed):
    """The request takes more memory than there is, or recursion deeper than Python's: exit status 5."""


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EROFS}
"""What the system answers where the machine is at its limits, whatever the input."""
NO_MEMORY = ("can't allocate memory", "not enough memory", "Failed to allocate memory", "bad_alloc", "bad allocation")
"""Words on memory in errors of libraries whose class says nothing."""


def check_machine(error: BaseException) -> None:
    """Raise ToolFailed where an error, or its cause, is the machine's or the tool's: it says nothing about a file.

    The machine is to blame for a full disk, no memory, no more files to open, and a recursion too deep for Python.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ToolFailed):
            raise cause
        if _is_overload(cause):
            raise Overloaded(f"{type(cause).__name__}: {first_line(cause)}") from error
        if isinstance(cause, OSError) and cause.errno in FULL:
            raise ToolFailed(f"{type(cause).__name__}: {first_line(cause)}") from error
        # as a traceback shows them: the cause, or else what was being handled
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _is_overload(error: BaseException) -> bool:
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    is_deep = isinstance(error, MemoryError | RecursionError)
    return no_memory or is_deep or any(text in str(error) for text in NO_MEMORY)


def path_of(value: object, name: str) -> Path:
    """Return a path that a caller from Python gave as an argument; raise BadInput, in one line, for anything else."""
    if not isinstance(value, str | PathLike) or isinstance(os.fspath(value), bytes):
        raise BadInput(f"{name} must be a path, got {value!r}")
    if "\0" in os.fspath(value) or not os.fspath(value):
        raise BadInput(f"{name} must be a path, got {os.fspath(value)!r}")
    return Path(value)


@contextmanager
def own_files() -> Iterator[None]:
    """Turn BadInput about files that this tool has just written into ToolFailed."""
    try:
        yield
    except BadInput as error:
        raise ToolFailed(f"what was written cannot be read back: {error.message}") from error


@contextmanager
def bad_input(prefix: str = "") -> Iterator[None]:
    """Turn a ValueError, whose text is one line for users, into BadInput."""
    try:
        yield
    except ValueError as error:
        failure = BadInput(f"{prefix}{error}")
        failure.has_lines = getattr(error, "has_lines", False)
        raise failure from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error that is not empty, without colours; its type where it has no text."""
    lines = [line.strip() for line in COLOUR.sub("", str(error)).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
