"""`posenc schemes`: what is registered, for people, for programs and for docs/schemes.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posenc_export.cli.options import SETTINGS, complete_source, console, guarded
from posenc_export.cli.output.helping import epilog
from posenc_export.errors import BadInput, bad_input

if TYPE_CHECKING:
    from rich.console import Console

    from posenc.parameters import Parameter
    from posenc.scheme import Scheme


@click.command(
    context_settings=SETTINGS,
    short_help="List schemes, with their parameters and defaults.",
    epilog=epilog(["posenc schemes", "posenc schemes rope"]),
)
@click.argument("name", required=False, shell_complete=complete_source)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("--markdown", is_flag=True, help="Print Markdown, as in docs/schemes.md.")
@click.option(
    "--pictures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Draw each into FOLDER, as in docs/pictures, and print nothing.",
)
@guarded
def schemes(name: str | None, as_json: bool, markdown: bool, pictures: Path | None) -> None:
    """List the registered schemes, or the one of that NAME, with their parameters and defaults."""
    from posenc.scheme import SCHEMES

    if sum([as_json, markdown, pictures is not None]) > 1:
        raise BadInput("--json, --markdown and --pictures are ways to show one list: give one of them")
    with bad_input():
        chosen = SCHEMES.values() if name is None else [SCHEMES[name]]
    if as_json:
        click.echo(json.dumps([describe(scheme) for scheme in chosen], indent=1))
    elif markdown:
        from posenc_export.cli.output.scheme_page import markdown_of

        click.echo(markdown_of(chosen), nl=False)
    elif pictures is not None:
        draw_all(chosen, pictures)
    else:
        print_schemes(console(), chosen)


def draw_all(chosen: list[Scheme], folder: Path) -> None:
    """Draw the smallest sample of each scheme: NAME.png in a folder, which is made where it is not there."""
    from posenc_export.plots import draw_small

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make {folder}: {error.strerror}") from error
    for scheme in chosen:
        draw_small(scheme, folder / f"{scheme.name}.png")


def describe(scheme: Scheme) -> dict[str, object]:
    """Return a scheme with its parameters, as JSON values."""
    return {
        "name": scheme.name,
        "summary": scheme.summary,
        "formula": scheme.formula,
        "paper": scheme.paper,
        "models": list(scheme.models),
        "positions": scheme.positions,
        "unsupported": scheme.unsupported.reasons(),
        "samples": [dict(sample) for sample in scheme.samples],
        "parameters": [_described(parameter) for parameter in scheme.parameters.values()],
    }


def _described(parameter: Parameter) -> dict[str, object]:
    from posenc.parameters import ABSENT, REQUIRED

    default = None if parameter.default in (REQUIRED, ABSENT) else parameter.default
    described = {
        "name": parameter.name,
        "type": parameter.type_name,
        "default": list(default) if isinstance(default, tuple) else default,
        "help": parameter.help,
    }
    return described | {"needed_by_some": True} if parameter.default is ABSENT else described


def print_schemes(console: Console, chosen: list[Scheme]) -> None:
    """Print schemes, each with a table of its parameters."""
    from rich.table import Table
    from rich.text import Text

    for scheme in chosen:
        console.print(Text(f"{scheme.name}: {scheme.summary}", style="bold"))
        console.print(Text(f"  {scheme.paper}; positions: {scheme.positions}"))
        if scheme.formula:
            console.print(Text(f"  {scheme.formula}"))
        if scheme.models:
            console.print(Text(f"  used by {', '.join(scheme.models)}"))
        for what, reason in scheme.unsupported.reasons().items():
            console.print(Text(f"  no {what}: {reason}"))
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(overflow="fold", min_width=24)
        for parameter in scheme.parameters.values():
            table.add_row(*(Text(cell) for cell in (typed(parameter), parameter.type_name, parameter.help)))
        console.print(table)
        console.print()


def typed(parameter: Parameter) -> str:
    """Return a parameter as it would be typed, with its default; with none where it is left out by default."""
    from posenc.parameters import ABSENT, REQUIRED

    value = parameter.default
    if value is REQUIRED or value is ABSENT:
        return f"-p {parameter.name}="
    text = ",".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)
    return f"-p {parameter.name}={text}"
