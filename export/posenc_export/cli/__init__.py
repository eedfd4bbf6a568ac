"""The command line: text in, tables out. Nothing heavy is imported before a command runs.

* `commands` has a file for each command. `options` and `declared` are what commands share.
* `text` makes values of what was typed, and `output` prints tables, help pages and annotations.
"""

from __future__ import annotations

import click

from posenc_export.cli.commands.bench import bench
from posenc_export.cli.commands.compat import compat
from posenc_export.cli.commands.cuda import cuda
from posenc_export.cli.commands.explain import explain
from posenc_export.cli.commands.export import export
from posenc_export.cli.commands.extend import extend
from posenc_export.cli.commands.inspect import inspect
from posenc_export.cli.commands.plot import plot
from posenc_export.cli.commands.prove import prove
from posenc_export.cli.commands.report import report
from posenc_export.cli.commands.runtimes import runtimes
from posenc_export.cli.commands.schemes import schemes
from posenc_export.cli.commands.serve import serve
from posenc_export.cli.commands.validate import validate
from posenc_export.cli.options import SETTINGS, VERSION
from posenc_export.cli.output.helping import STATUSES, CommandGroup, epilog

__all__ = ["export", "main"]


@click.group(
    cls=CommandGroup,
    context_settings=SETTINGS,
    epilog=epilog(["posenc export --dynamic", "posenc validate sinusoidal-dynamic", "posenc export --help"], STATUSES),
)
@VERSION
def main() -> None:
    """Export positional encodings to ONNX and TorchScript, and prove the result."""


WRITERS = (export, validate, report, serve, prove)
READERS = (inspect, extend, compat)
LISTS = (explain, schemes, runtimes)
for command in (*WRITERS, *READERS, *LISTS, plot, bench, cuda):
    main.add_command(command)
