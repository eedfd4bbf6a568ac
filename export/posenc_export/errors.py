"""What can go wrong on a user's side: one line each, and the exit status it ends with."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from unicodedata import category

import click

STEERING = ("Cc", "Cf", "Zl", "Zp", "Cs")
"""Kinds of characters that show nothing themselves: control, format, separators of lines, halves of pairs."""
BEGINS_COMMAND = re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE)
"""What begins a command of a workflow run, as `::stop-commands::`: GitHub's runner looks behind spaces too."""
HOLDS_COMMAND = re.compile(r"#(?=#[\w.]*\[)")
"""What begins one wherever it stands in a line: `##[stop-commands]` for GitHub, `##vso[` for others."""
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
"""What libraries colour parts of their errors with, on a terminal or not."""


def decoded(text: str) -> str:
    """Return a text in which bytes that the locale has no letters for, as those of a file's name, are read as UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # halves of pairs that are no bytes of a name
        return text


def unsteered(text: str) -> str:
    """Return a text with what would steer a terminal, but for line ends, written as Python escapes it.

    Names, notes and error texts come from bundles of strangers: they must not move the cursor, nor hide lines.
    """
    shown = decoded(text)
    return "".join(
        c if c == "\n" or category(c) not in STEERING else c.encode("unicode_escape").decode() for c in shown
    )


def printable(text: str) -> str:
    """Return a text that steers no terminal, and in which no build server finds a command for itself."""
    return BEGINS_COMMAND.sub(r"\1\\x3a", HOLDS_COMMAND.sub(r"\\x23", unsteered(text)))


def one_line(text: str) -> str:
    """Return a text that may be printed, as the one line that it is: a second would pass for one of the tool's own."""
    return printable(text.replace("\n", "\\n"))


class PosencError(click.ClickException):
    """A failure that is said in one line; below it may stand what it is about, with a caret under the place.

    in_python: the same to who calls from Python, with keyword arguments in the place of options.
    """

    in_python = ""

    def __str__(self) -> str:
        return self.in_python or self.message

    def format_message(self) -> str:
        """Return the text as it may be printed on a terminal."""
        return printable(self.message)


class BadInput(PosencError):
    """What was asked for makes no sense, or cannot be read: exit status 2."""

    exit_code = 2


class Unavailable(PosencError):
    """A required runtime cannot run here: exit status 3."""

    exit_code = 3

    def format_message(self) -> str:
        """Return the text in one line: it may be what a runtime says of a stranger's file."""
        return one_line(self.message)


class ExportFailed(PosencError):
    """The module could not be turned into a graph that holds for what was asked: exit status 4."""

    exit_code = 4


class OpsetFailed(ExportFailed):
    """A program could not be written at an opset; it may be at a newer one: exit status 4."""


class ToolFailed(PosencError):
    """The tool itself failed: a full disk, no memory left, a bug: exit status 5."""

    exit_code = 5


class Overloaded(ToolFailed):
    """What was asked for takes more memory than there is, or goes deeper than Python does: exit status 5."""


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.EIO, errno.EROFS}
"""What the system answers where the machine is at its end, whatever was given."""
NO_MEMORY = ("can't allocate memory", "not enough memory", "Failed to allocate memory", "bad_alloc", "bad allocation")
"""What libraries say of memory in errors of kinds that they raise for much else."""


def check_machine(error: BaseException) -> None:
    """Raise ToolFailed where an error, or what it came of, is the machine's or the tool's: it is no verdict on a file.

    So are a full disk, no memory left, no more files to open, and a recursion that is too deep for Python.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ToolFailed):  # it says so already
            raise cause
        if _is_overload(cause):
            raise Overloaded(f"{type(cause).__name__}: {first_line(cause)}") from error
        if isinstance(cause, OSError) and cause.errno in FULL:
            raise ToolFailed(f"{type(cause).__name__}: {first_line(cause)}") from error
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _is_overload(error: BaseException) -> bool:
    no_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    is_deep = isinstance(error, MemoryError | RecursionError)
    return no_memory or is_deep or any(text in str(error) for text in NO_MEMORY)


@contextmanager
def own_files() -> Iterator[None]:
    """Turn what is wrong with files that this tool has just written into ToolFailed."""
    try:
        yield
    except BadInput as error:
        raise ToolFailed(f"what was written cannot be read back: {error.message}") from error


@contextmanager
def bad_input(what: str = "") -> Iterator[None]:
    """Turn a ValueError, whose text is one line for users, into BadInput."""
    try:
        yield
    except ValueError as error:
        raise BadInput(f"{what}{error}") from error


def first_line(error: BaseException) -> str:
    """Return the first line of an error that says something, without colours; its type where it has no text."""
    lines = [line.strip() for line in COLOUR.sub("", str(error)).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
