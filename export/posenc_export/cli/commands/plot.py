"""`posenc plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from posenc_export.cli.declared import choice, number, switch
from posenc_export.cli.options import PARAMS, SETTINGS, complete_source, guarded
from posenc_export.cli.output.helping import Command, epilog
from posenc_export.cli.output.progressing import progress
from posenc_export.common.errors import bad_input


@click.command(
    cls=Command,
    context_settings=SETTINGS,
    short_help="Draw an encoding, or the error of its forms.",
    epilog=epilog(
        [
            "posenc plot -o table.png",
            "posenc plot rope -p head_dim=64 --kind clock -o hands.svg",
            "posenc plot --kind error --max-len 1000000 -o error.png",
            "posenc plot rope --kind exported -o exported.svg",
        ],
        {0: "the picture is written"},
    ),
)
@click.argument("scheme", default="sinusoidal", shell_complete=complete_source)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="A .png, .svg or .pdf."
)
@choice(
    "--kind",
    ["heatmap", "clock", "error", "exported"],
    "heatmap: its numbers; clock: its pairs as clock hands; error: the error of its three forms by position; "
    "exported: the error of its ONNX file and of a plain export, in float32 and converted to half.",
    "heatmap",
)
@number(
    "--max-len",
    "Positions to draw, along each axis.  [default: heatmap 128, of two axes 64 by 64, of a grid 24 by 32; clock 16; "
    "error and exported 131072]",
)
@PARAMS
@switch("--force", "Replace the file at -o.")
@guarded
def plot(**values: Any) -> None:
    """Draw SCHEME: heat maps, its pairs as clock hands, or errors (of its forms baked, exact and trig; of ONNX files).

    A heat map is of positions and features, of a grid for each feature, or of queries and keys for each head.
    """
    from posenc.parameters import parse
    from posenc.signatures import declared_parameters

    scheme, file = values["scheme"], values["output"]
    with bad_input():
        parameters = parse(values["params"], declared_parameters(scheme), scheme)
    # what follows loads torch
    from posenc_export.bundle.place import check_apart
    from posenc_export.show.plots import check_picture, draw
    from posenc_export.write.inputs.reads import reads_of

    check_apart(file, reads_of(scheme, values["params"]))
    check_picture(file, values["force"])
    with progress(values) as say:
        say(f"drawing {file}")
        draw(scheme, values["kind"], values["max_len"], parameters, file, force=values["force"])
    click.echo(f"wrote {file}")
