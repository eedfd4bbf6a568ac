"""`posenc schemes`: what is registered, for people, for programs and for docs/reference/schemes.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc_export.bundle.out_file import PlaceOption
from posenc_export.cli.declared import JSON, path, switch
from posenc_export.cli.options import SETTINGS, complete_source, guarded
from posenc_export.cli.output.helping import Command, epilog
from posenc_export.cli.output.printing import console
from posenc_export.common.errors import BadInput, bad_input

if TYPE_CHECKING:
    from posenc.scheme import Scheme

PICTURES = PlaceOption("--pictures")
"""The option that takes the folder of pictures."""


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="List schemes, with their parameters and defaults.",
    epilog=epilog(
        ["posenc schemes", "posenc schemes rope"],
        {0: "the list is printed"},
    ),
)
@click.argument("name", required=False, shell_complete=complete_source)
@JSON
@switch("--markdown", "Print Markdown, as in docs/reference/schemes.md.")
@path("--pictures", "Draw each into FOLDER, as in docs/pictures, and print nothing.", "FOLDER")
@switch("--force", "Replace the files of --pictures that are there.")
@guarded
def schemes(name: str | None, pictures: Path | None, **values: Any) -> None:
    """List the registered schemes, or the one of that NAME, with their parameters and defaults."""
    from posenc.scheme import SCHEMES
    from posenc_export.cli.output.scheme_list import describe, print_schemes

    as_json, markdown = values["as_json"], values["markdown"]
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
        draw_all(chosen, pictures, values["force"])
    else:
        print_schemes(console(), chosen)


def draw_all(chosen: list[Scheme], folder: Path, force: bool) -> None:
    """Draw the smallest sample of each scheme: NAME.png in a folder, which is made where it is not there."""
    from posenc_export.show.plots import check_picture, draw_small

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make {folder}: {error.strerror}") from error
    files = {folder / f"{scheme.name}.png": scheme for scheme in chosen}
    for file in files:  # all of them, before any is drawn
        check_picture(file, force, PICTURES)
    for file, scheme in files.items():
        draw_small(scheme, file, force=force, option=PICTURES)
