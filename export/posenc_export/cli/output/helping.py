"""Pages of --help: options under headings, then examples, and what an exit status means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import click

from posenc.registry import did_you_mean
from posenc_export.cli.declared import Declared

ALWAYS = {
    2: "wrong usage, or input that cannot be read",
    5: "the tool itself failed: a full disk, no memory, a bug",
    130: "stopped by Ctrl-C (141: by a closed pipe, 143: by SIGTERM)",
}
"""The exit statuses of every command: `common.errors` and `common.interrupts` set them."""
PROVED = {
    0: "all that could run agreed",
    1: "something disagreed, or a check failed",
    3: "a runtime that was named cannot run, or a limit ran out",
}
"""Those of a command that proves something."""
EXPORTED = {4: "the module could not be exported"}
STATUSES = PROVED | EXPORTED | ALWAYS
"""All of them."""
ENCODING, FILES, OTHER = "The encoding", "Files", "Other"
"""Headings that several commands have."""
EXTRA = re.compile(r"Got unexpected extra argument \((\w+=\S*)\)")
"""The error of click for KEY=VALUE without -p."""
_headings: dict[click.Parameter, str] = {}


def options(*declared: Declared, under: str = OTHER) -> Declared:
    """Declare options in the order in which --help shall list them, under a heading."""

    def decorate(command: Callable[..., object]) -> Callable[..., object]:
        before = list(getattr(command, "__click_params__", ()))
        for declare in reversed(declared):  # click lists what is declared last first
            command = declare(command)
        for parameter in getattr(command, "__click_params__", ()):
            if parameter not in before:
                _headings.setdefault(parameter, under)
        return command

    return decorate


def heading(parameter: click.Parameter) -> str:
    """Return the heading under which an option is listed."""
    return _headings.get(parameter, OTHER)


class Command(click.Command):
    """A command whose options stand under headings, in order of appearance; options without a heading come last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what was typed; say how to give KEY=VALUE without -p, and refuse both sides of a switch."""
        typed = set(args[: args.index("--")] if "--" in args else args)
        for parameter in self.params:  # click would take the last one
            sides = [typed.intersection(names) for names in (parameter.opts, parameter.secondary_opts)]
            if all(sides):
                raise click.UsageError(f"{' and '.join(map(min, sides))} exclude each other: give one of them", ctx)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if extra := EXTRA.fullmatch(error.message):
                raise click.UsageError(f"{error.message}: give it as -p {extra[1]}", ctx) from error
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, heading by heading."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections.setdefault(heading(parameter), []).append(record)
        # a page without headings has one section, Options
        last = sections.pop(OTHER, [])
        for title, records in {**sections, OTHER if sections else "Options": last}.items():
            with formatter.section(title):
                formatter.write_dl(records)


class CommandGroup(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; raise UsageError, which suggests the nearest name, for an unknown one."""
        name = args[0]
        # an option that click does not know is its own error
        if name not in self.commands and not name.startswith("-"):
            known = list(self.commands)
            raise click.UsageError(
                f"No such command {name!r}: {did_you_mean(name, known)}known: {', '.join(known)}", ctx
            )
        return super().resolve_command(ctx, args)


def epilog(examples: Sequence[str], statuses: Mapping[int, str]) -> str:
    """Return the text below the options: example lines, and exit statuses.

    Args:
        examples: commands as they are typed.
        statuses: in words, those of the command's own, and those of every command that mean more here.
    """
    known = [f"  {status:<3} {words}" for status, words in sorted({**ALWAYS, **statuses}.items())]
    parts = [["Examples:", *(f"  {example}" for example in examples)], ["Exit status:", *known]]
    return "\n\n".join("\n".join(["\b", *part]) for part in parts)
