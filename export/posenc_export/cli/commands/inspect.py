"""`posenc inspect`: what an ONNX file that anybody made holds of positions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from posenc_export.cli.declared import named, path, real, several
from posenc_export.cli.options import SETTINGS, SPOKEN, guarded
from posenc_export.cli.output.annotations import print_findings
from posenc_export.cli.output.helping import Command, epilog, options
from posenc_export.cli.output.printing import print_json
from posenc_export.errors import one_line
from posenc_export.reading.findings import findings

if TYPE_CHECKING:
    from posenc_export.reading.inspection import Inspection

UNJUDGED = ("PE205", "PE206", "PE211", "PE212", "PE215", "PE216")
"""Findings of level error that make a bound of errors no answer: numbers that are noise, or were not measured."""
HELD = options(
    path("--config", "Hold the file against this config.json, or that of a model's folder, layer by layer."),
    path("--against", "Hold it against the ONNX file that it was made of, by an optimizer or a quantizer."),
    under="What should be",
)
INPUTS = options(
    named("--positions", "An input that holds positions.  [default: every input is tried]", "INPUT", many=True),
    named("--mask", "An input that is a mask.", "INPUT", many=True),
    under="What inputs are for",
)
FAILING = options(
    several(
        "--fail-on",
        [entry.code for entry in findings()],
        "Exit with 1 on this finding, whatever its severity, and on no other one.  [default: every error]",
        metavar="CODE",
    ),
    real("--fail-above", "Exit with 1 where numbers are off by more than this against float64.", None),
    under="What fails",
)
LIMITS = options(
    real("--timeout", "Limit of reading a file.  [default: 120; 0 = any]", 120.0, "SECONDS"),
    real("--memory", "Limit of the memory of reading a file.  [default: 4]", 4.0, "GIB"),
    path("--plot", "Draw the error by position into this .png, .svg or .pdf."),
)


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Say what an ONNX file of your own holds of positions, and what is wrong.",
    epilog=epilog(
        [
            "posenc inspect model.onnx",
            "posenc inspect model.onnx --config config.json --fail-on PE208",
            "posenc inspect optimised.onnx --against model.onnx --json",
        ],
        [0, 1, 2, 5, 130],
        {0: "no finding is an error", 1: "a finding is an error, or one that --fail-on names"},
    ),
)
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.onnx")
@HELD
@INPUTS
@FAILING
@LIMITS
@SPOKEN
@guarded
def inspect(model: Path, **values: Any) -> None:
    """Say which positional encodings an ONNX file holds, how right they are, and where they end.

    It needs no PyTorch model, and runs nothing of the file but small kernels on numbers that follow from positions.
    """
    import posenc_export

    if values["plot"] is not None:
        from posenc_export.plots import check_picture

        check_picture(values["plot"])  # before a minute of reading, not after it
    spoken = not (values["as_json"] or values["quiet"])
    bound = {} if values["fail_above"] is None else {"bound": values["fail_above"]}
    limits = {"timeout": values["timeout"], "memory": values["memory"], "begun": _print_head if spoken else _silent}
    limits |= {"positions": tuple(values["positions"]), "masks": tuple(values["mask"])}
    held = {"config": values["config"], "against": values["against"]}
    inspection = posenc_export.inspect(model, **held, **bound, **limits)
    if values["as_json"]:
        from posenc_export.reading.report.schema import inspection_json

        print_json(inspection_json(inspection))
    elif spoken:
        _print_body(inspection)
    if values["plot"] is not None:
        from posenc_export.plots import draw_errors

        draw_errors(inspection, values["plot"])
    if values["github"]:
        print_findings(inspection.findings, bool(values["as_json"]))
    sys.exit(1 if fails(inspection, values["fail_on"], values["fail_above"]) else 0)


def fails(inspection: Inspection, codes: tuple[str, ...], bound: float | None) -> bool:
    """Return whether an inspection fails, by the codes that are asked for, or by its errors."""
    if not codes and bound is None:
        return not inspection.passed
    # what a bound was asked for and could not be held against is an error of these
    held = {"PE204", *UNJUDGED} if bound is not None else set()
    graver = (entry for entry in inspection.findings if entry.code in held and entry.severity == "error")
    return any(graver) or any(entry.code in codes for entry in inspection.findings)


def _silent(inspection: Inspection) -> None:
    """Print nothing."""


def _print_head(inspection: Inspection) -> None:
    """Print what the file is, before it is interpreted."""
    from posenc_export.reading.report.text import head_lines

    for line in head_lines(inspection):
        click.echo(one_line(line))


def _print_body(inspection: Inspection) -> None:
    from posenc_export.reading.report.text import body_lines, finding_lines, last_line

    for line in (*body_lines(inspection), *finding_lines(inspection.findings), last_line(inspection.findings)):
        click.echo(one_line(line))
