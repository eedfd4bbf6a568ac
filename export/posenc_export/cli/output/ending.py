"""The end of `posenc export` and `posenc validate`: the report as asked for, annotations, and the exit status."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from posenc_export.cli.output.annotations import print_annotations
from posenc_export.cli.output.printing import console, print_json
from posenc_export.common.errors import Unavailable, decoded

if TYPE_CHECKING:
    from posenc_export.proof.report.result import ValidateResult


def print_result(result: ValidateResult, folder: Path, values: Mapping[str, object]) -> None:
    """Print the report of a bundle: as JSON, as tables, or, with -q, not at all."""
    from posenc_export.cli.output.tables import print_report
    from posenc_export.proof.report.report import report_json

    if values["as_json"]:
        report = report_json(result.manifest, result.verdicts, result.basis)
        print_json({"bundle": decoded(str(folder)), **report})
    elif not values["quiet"]:
        print_report(console(), result.manifest, result.verdicts, result.basis, bool(values["verbose"]))


def end(result: ValidateResult, values: Mapping[str, object]) -> NoReturn:
    """Print annotations, and exit: raise Unavailable for a required runtime that did not run."""
    print_annotations(values, result.manifest, result.verdicts)
    for reason in result.unmet:
        raise Unavailable(reason)
    sys.exit(1 if result.failed else 0)
