"""Errors by position of two ONNX files, in float32 and converted to half: a plain export, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from posenc.encoding import Encoding
from posenc.memory import check_room
from posenc.ports import Array, Floats, Integers, Positions, axes_of, carrying
from posenc.spec import Spec
from posenc_export.common.arrays import to_torch
from posenc_export.proof.benchmarks.baselines import Baseline, baseline_of
from posenc_export.proof.exporter import ExportOptions, export_target
from posenc_export.proof.runtimes.onnx_reference import evaluator
from posenc_export.show.plots.curves import ERROR_POSITIONS, largest_errors, positions_tried
from posenc_export.show.plots.encodings import Parameters, drawn_input
from posenc_export.show.plots.heat import named
from posenc_export.write.formats import FORMATS, quiet
from posenc_export.write.formats.onnx.dtypes import to_float16
from posenc_export.write.targets.scheme import scheme_target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from onnx import ModelProto

PLAIN, OURS, FLOAT, HALF = "plain export", "ours", ", float32", ", converted to half"
COLOURS = {PLAIN + HALF: "#8c1515", PLAIN + FLOAT: "#d9530f", OURS + HALF: "#1f4e8c", OURS + FLOAT: "#1a86c7"}
"""By the label of a curve."""
ROOM = 8
"""Arrays as large as an output in memory at once: inputs, outputs, the float64 reference, intermediate results."""
FLOAT16 = 10
"""The dtype's number in onnx.TensorProto."""
LAST = 20
"""The label of a curve stands beside the median of so many last points."""
TRACED = 5
"""The length of the inputs that the plain module is exported with; the axis is dynamic."""


@dataclass(frozen=True)
class ExportedCurve:
    """The largest error of rows in ranges of positions, and the first position whose output is not finite, if any."""

    label: str
    positions: Integers
    errors: Floats
    not_finite_from: int | None = None


def exported(figure: Figure, scheme: str, max_len: int | None, parameters: Parameters) -> None:
    """Draw the error against float64 by position of the plain export and of ours, in float32 and converted to half."""
    count = max_len or ERROR_POSITIONS
    curves = curves_of(scheme, count, parameters)
    axes = figure.subplots()
    for curve in curves:
        axes.plot(curve.positions, curve.errors, color=COLOURS[curve.label], linewidth=1.6)
        _label(axes, curve, count)
    axes.set(
        xscale="log", yscale="log", xlim=(1, count), xlabel="position", ylabel="largest error of a row, against float64"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, alpha=0.3)
    figure.suptitle(_finding(named(scheme, parameters), count, curves))


def _label(axes: Axes, curve: ExportedCurve, end: int) -> None:
    """Label a curve beside its end; the label says about where it becomes NaN."""
    text = curve.label.replace(", ", "\n")
    if curve.not_finite_from is not None:
        text += f",\nNaN from about {float(f'{curve.not_finite_from:.3g}'):,.0f} on"
    at = (end, float(np.nanmedian(curve.errors[-LAST:])))
    axes.annotate(
        text,
        at,
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        color=COLOURS[curve.label],
        annotation_clip=False,
    )


def _finding(name: str, count: int, curves: list[ExportedCurve]) -> str:
    """Return the title: a sentence of what the curves show."""
    worst = {curve.label: f"{np.nanmax(curve.errors):.1g}" for curve in curves}
    plain, ours = (f"{worst[who + FLOAT]}, and by {worst[who + HALF]} in half" for who in (PLAIN, OURS))
    return f"{name}: up to position {count - 1:,} the plain export is off by {plain};\nours is off by {ours}"


# ---- the files, and what they give -----------------------------------------------------------------------------------


def curves_of(scheme: str, count: int, parameters: Parameters) -> list[ExportedCurve]:
    """Return a curve for each of four files: those of the usual module as torch.onnx.export writes it, and ours.

    Raises ValueError, in one line, where a scheme has no usual module, or where memory is too small.
    """
    import onnx

    target = scheme_target(scheme, Spec("dynamic", max_len=count), parameters, 0)
    with TemporaryDirectory(prefix="posenc-plot-") as folder:
        ours, plain = Path(folder) / "ours", Path(folder) / "plain.onnx"
        made = export_target(lambda: target, ExportOptions(("onnx",), validate=False), ours)
        baseline = baseline_of(made.manifest)
        if baseline is None:
            raise ValueError(f"--kind exported compares with the usual module, and {scheme} has none")
        export_plain(baseline, target.encoding, plain)
        # a model is loaded twice: the conversion changes it
        models: dict[str, ModelProto] = {}
        for label, path in ((PLAIN, plain), (OURS, ours / FORMATS["onnx"].file)):
            models |= {label + HALF: to_float16(onnx.load(path)), label + FLOAT: onnx.load(path)}
    return _measured(target.encoding, models, count)


def export_plain(baseline: Baseline, encoding: Encoding, path: Path) -> None:
    """Write the usual module of an encoding with torch.onnx.export, lengths dynamic."""
    import torch

    length = torch.export.Dim("length", min=2)
    sizes = _sizes(encoding, TRACED)
    with quiet():
        torch.onnx.export(
            baseline.module(**baseline.parameters).eval(),
            tuple(to_torch(drawn_input(port, sizes, fill=0)) for port in encoding.inputs),
            path,
            input_names=[port.name for port in encoding.inputs],
            output_names=[port.name for port in encoding.outputs],
            dynamic_shapes=tuple(dict.fromkeys(port.lengths, length) for port in encoding.inputs),
            dynamo=True,
        )


def _measured(encoding: Encoding, models: Mapping[str, ModelProto], count: int) -> list[ExportedCurve]:
    """Run each model with x = 0, or q = k = 1; compare its first output with float64 at positions below a count."""
    positions, starts = positions_tried(count)
    takes_positions = bool(carrying(encoding.inputs, Positions))
    length = len(positions) if takes_positions else count
    rows = np.arange(length) if takes_positions else positions  # implicit: a whole call, and some of its rows
    output, sizes = encoding.outputs[0], _sizes(encoding, length)
    # one axis of positions: grids have no usual module
    (along,) = output.lengths
    # asked before torch and NumPy take gigabytes for an implicit call
    check_room(f"{ROOM} times {output.name}", (ROOM, *output.shape(sizes)), output.dtype)
    feeds = {port.name: drawn_input(port, sizes, fill=0 if encoding.added else 1) for port in encoding.inputs}
    feeds |= {port.name: positions[None] for port in carrying(encoding.inputs, Positions)}
    # (batch, ..., length, ...) -> (rows, features)
    reference = _by_row(encoding.reference(feeds, rows)[output.name], along)
    curves = []
    for label, model in models.items():
        halves = {port.name for port in model.graph.input if port.type.tensor_type.elem_type == FLOAT16}
        typed = {name: array.astype(np.float16) if name in halves else array for name, array in feeds.items()}
        with np.errstate(all="ignore"):  # in half, positions beyond 65,504 are infinite
            outputs = evaluator(model)(typed)
        errors = np.abs(_by_row(outputs[output.name], along)[rows] - reference).max(axis=1)
        curves.append(_curve(label, positions, starts, errors))
    return curves


def _curve(label: str, positions: Integers, starts: Integers, errors: Floats) -> ExportedCurve:
    """Return the curve of errors by position, up to the first that is not finite."""
    wrong = np.flatnonzero(~np.isfinite(errors))
    if not wrong.size:
        return ExportedCurve(label, positions[starts], largest_errors(errors, starts))
    end = int(wrong[0])
    starts = starts[starts < end]
    return ExportedCurve(label, positions[starts], largest_errors(errors[:end], starts), int(positions[end]))


def _by_row(array: Array, along: int) -> Floats:
    """Return an array as (rows, features), its rows being along an axis."""
    return np.moveaxis(array, along, 0).reshape(array.shape[along], -1).astype(np.float64)


def _sizes(encoding: Encoding, length: int) -> dict[str, int]:
    """Return the sizes of a call: one sequence of a length, one head."""
    return {axis.name: length if axis.is_length else 1 for axis in axes_of(encoding.inputs)}
