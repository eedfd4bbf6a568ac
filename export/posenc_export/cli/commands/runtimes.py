"""`posenc runtimes`: which runtimes there are, which of them run here, and how to get the others."""

from __future__ import annotations

from dataclasses import asdict

import click

from posenc_export.cli.declared import JSON
from posenc_export.cli.options import SETTINGS, guarded
from posenc_export.cli.output.helping import Command, epilog
from posenc_export.cli.output.printing import console, print_json


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="List runtimes: which run here, and how to get the others.",
    epilog=epilog(["posenc runtimes", "posenc runtimes --json"], {0: "the list is printed"}),
)
@JSON
@guarded
def runtimes(as_json: bool) -> None:
    """List the runtimes that files can be proved on: which of them run here, and how to get the others."""
    from posenc_export.cli.output.tables import print_runtimes
    from posenc_export.proof.runtimes.availability import availability

    found = availability()
    if as_json:
        print_json({"runtimes": [asdict(one) for one in found]})
    else:
        print_runtimes(console(), found)
