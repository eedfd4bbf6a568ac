"""`posenc report`: the proof of a bundle as a page to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from posenc_export.cli.declared import switch
from posenc_export.cli.options import CHECKED, SETTINGS, SPOKEN, TRUST, guarded, validate_options
from posenc_export.cli.output.ending import end, print_result
from posenc_export.cli.output.helping import PROVED, Command, epilog, options
from posenc_export.cli.output.progressing import progress
from posenc_export.common.errors import decoded

PAGE = options(
    click.option(
        *("-o", "--output"),
        type=click.Path(path_type=Path),
        required=True,
        metavar="FILE.html",
        help="Where the page goes: one file, which loads nothing.",
    ),
    switch("--force", "Replace the file at -o."),
    under="The page",
)


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Prove a bundle, and write the result as a page in HTML.",
    epilog=epilog(
        [
            "posenc report sinusoidal-dynamic -o proof.html",
            "posenc report sinusoidal-dynamic --trust --require ort-cuda -o proof.html",
        ],
        PROVED,
    ),
)
@click.argument("bundle", type=click.Path(path_type=Path))
@PAGE
@TRUST
@CHECKED
@SPOKEN
@guarded
def report(bundle: Path, **values: Any) -> None:
    """Prove BUNDLE on this machine as `posenc validate` does, and write the page; for one that fails, too.

    The page has verdicts, checks, errors by position and pictures. What a bundle's own report says is not believed.
    """
    import posenc_export

    with progress(values) as say:
        chosen = validate_options(values, say)
        result = posenc_export.report(
            bundle, values["output"], trust=values["trust"], force=values["force"], options=chosen
        )
    print_result(result, bundle, values)
    if not (values["as_json"] or values["quiet"]):
        click.echo(f"wrote {decoded(str(values['output']))}")
    end(result, values)
