"""`posenc validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from posenc_export.cli.options import CHECKED, SETTINGS, SPOKEN, TRUST, guarded, validate_options
from posenc_export.cli.output.ending import end, print_result
from posenc_export.cli.output.helping import PROVED, Command, epilog
from posenc_export.cli.output.progressing import progress


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Check a bundle on this machine, from its golden data alone.",
    epilog=epilog(
        [
            "posenc validate sinusoidal-dynamic",
            "posenc validate sinusoidal-dynamic --trust --require ort-cuda",
            "posenc validate sinusoidal-dynamic --json",
        ],
        PROVED,
    ),
)
@click.argument("bundle", type=click.Path(path_type=Path))
@TRUST
@CHECKED
@SPOKEN
@guarded
def validate(bundle: Path, **values: Any) -> None:
    """Check an existing BUNDLE on this machine, from its golden data alone; the bundle itself is left as it is."""
    import posenc_export

    with progress(values) as say:
        result = posenc_export.validate(bundle, trust=values["trust"], options=validate_options(values, say))
    print_result(result, bundle, values)
    end(result, values)
