"""`posenc validate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from posenc_export.cli.options import CHECKED, SETTINGS, SPOKEN, TRUST, VALIDATING, console, guarded
from posenc_export.cli.output.helping import Command, epilog
from posenc_export.cli.output.printing import print_json
from posenc_export.cli.output.progressing import progress
from posenc_export.errors import Unavailable, decoded


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
        [0, 1, 2, 3, 5, 130],
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
    from posenc_export.cli.output.annotations import print_annotations
    from posenc_export.cli.output.tables import print_report
    from posenc_export.exporter.settings import with_fields
    from posenc_export.validation.judging.verdict import ValidateOptions
    from posenc_export.validation.report.report import report_json

    with progress(values) as say:
        settings = {name: values[name] for name in VALIDATING}
        options = with_fields(ValidateOptions(), {**settings, "progress": say})
        result = posenc_export.validate(bundle, trust=values["trust"], options=options)
    if values["as_json"]:
        report = report_json(result.manifest, result.verdicts, result.basis)
        print_json({"bundle": decoded(str(bundle)), **report})
    elif not values["quiet"]:
        print_report(console(), result.manifest, result.verdicts, result.basis, bool(values["verbose"]))
    print_annotations(values, result.manifest, result.verdicts)
    for reason in result.unmet:
        raise Unavailable(reason)
    sys.exit(1 if result.failed else 0)
