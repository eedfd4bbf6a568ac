"""`posenc schemes`: what is registered, for people, for programs and for docs/reference/schemes.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from posenc_export.cli.declared import JSON, path, switch
from posenc_export.cli.options import SETTINGS, complete_source, guarded
from posenc_export.cli.output.helping import epilog
from posenc_export.cli.output.printing import console
from posenc_export.common.errors import BadInput, bad_input

if TYPE_CHECKING:
    from posenc.scheme import Scheme


@click.command(
    context_settings=SETTINGS,
    short_help="List schemes, with their parameters and defaults.",
    epilog=epilog(
        ["posenc schemes", "posenc schemes rope", "posenc schemes --site gallery"],
        {0: "the list is printed"},
    ),
)
@click.argument("name", required=False, shell_complete=complete_source)
@JSON
@switch("--markdown", "Print Markdown, as in docs/reference/schemes.md.")
@path("--pictures", "Draw each into FOLDER, as in docs/pictures, and print nothing.", "FOLDER")
@path("--site", "Write a page for each into FOLDER, with pictures and a search, for a browser.", "FOLDER")
@guarded
def schemes(name: str | None, as_json: bool, markdown: bool, pictures: Path | None, site: Path | None) -> None:
    """List the registered schemes, or the one of that NAME, with their parameters and defaults."""
    from posenc.scheme import SCHEMES
    from posenc_export.cli.output.scheme_list import describe, print_schemes

    if sum([as_json, markdown, pictures is not None, site is not None]) > 1:
        raise BadInput("--json, --markdown, --pictures and --site are ways to show one list: give one of them")
    with bad_input():
        chosen = SCHEMES.values() if name is None else [SCHEMES[name]]
    if as_json:
        click.echo(json.dumps([describe(scheme) for scheme in chosen], indent=1))
    elif markdown:
        from posenc_export.cli.output.scheme_page import markdown_of

        click.echo(markdown_of(chosen), nl=False)
    elif pictures is not None:
        draw_all(chosen, pictures)
    elif site is not None:
        write_gallery(chosen, site)
    else:
        print_schemes(console(), chosen)


def draw_all(chosen: list[Scheme], folder: Path) -> None:
    """Draw the smallest sample of each scheme: NAME.png in a folder, which is made where it is not there."""
    from posenc_export.show.plots import draw_small

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make {folder}: {error.strerror}") from error
    for scheme in chosen:
        draw_small(scheme, folder / f"{scheme.name}.png")


def write_gallery(chosen: list[Scheme], folder: Path) -> None:
    """Write a site with a page for each scheme into a folder, whole or not at all, and say where to begin."""
    import tempfile

    from posenc_export.cli.output.gallery import site_of
    from posenc_export.show.site import check_site, write_site

    check_site(folder)
    with tempfile.TemporaryDirectory() as pictures:
        write_site(site_of(chosen, Path(pictures)), folder)
    click.echo(f"{folder / 'index.html'}: open it in a browser, or put the folder on any web server")
