"""Every option of every command, as docs/reference/options.md: what `--help` says, in tables.

python runtime_tests/scripts/options.py > docs/reference/options.md
"""

from collections.abc import Iterator

import click

from posenc_export.cli import main
from posenc_export.common.markdown import table

HEAD = """# Options

For those who look up an option. `posenc COMMAND --help` says the same, and `posenc-export` is `posenc export`.
If several commands share an option, the first of them describes it.

Made by `python runtime_tests/scripts/options.py > docs/reference/options.md`.
"""


def context_of(command: click.Command) -> click.Context:
    """Return a context with the settings of a command: click keeps the option for help that it was first asked with."""
    return click.Context(command, **command.context_settings)


def records(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield the names and the help of each option of a command."""
    context = context_of(command)
    for parameter in command.params:
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record:
            yield record[0], " ".join(record[1].split())


def section(name: str, command: click.Command, before: set[tuple[str, str]]) -> str:
    """Return the options of a command: in a table, or by name where a command before it has them."""
    every = list(records(command))
    rows = [(f"`{names}`", text) for names, text in every if (names, text) not in before]
    again = [f"`{names}`" for names, text in every if (names, text) in before]
    usage = " ".join(command.collect_usage_pieces(context_of(command)))
    parts = [f"## {name}", f"`posenc {name} {usage}`: {' '.join((command.help or '').split())}"]
    parts += [table(("option", "what it does"), rows)] if rows else []
    parts += [f"As above: {', '.join(again)}."] if again else []
    return "\n\n".join(parts) + "\n"


def page() -> str:
    """Return the page: a section a command."""
    parts, before = [HEAD], set[tuple[str, str]]()
    for name, command in main.commands.items():
        parts.append(section(name, command, before))
        before |= set(records(command))
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
