"""The command line: text in, tables out. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import click

from posenc_export.cli.benching import bench
from posenc_export.cli.compatible import compat
from posenc_export.cli.explaining import explain
from posenc_export.cli.exporting import export
from posenc_export.cli.helping import Group, epilog
from posenc_export.cli.listing import schemes
from posenc_export.cli.options import SETTINGS, VERSION
from posenc_export.cli.plotting import plot
from posenc_export.cli.proving import cuda
from posenc_export.cli.validating import validate

__all__ = ["export", "main"]


@click.group(
    cls=Group,
    context_settings=SETTINGS,
    epilog=epilog(["posenc export --dynamic", "posenc validate sinusoidal-dynamic", "posenc export --help"]),
)
@VERSION
def main() -> None:
    """Export positional encodings to ONNX and TorchScript, and prove the result."""


for command in (export, validate, compat, explain, schemes, plot, bench, cuda):
    main.add_command(command)
