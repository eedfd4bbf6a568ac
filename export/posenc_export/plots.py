"""Pictures of an encoding: its table, its pairs as clock hands, the error of the three ways to compute it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np

from posenc.scheme import SCHEMES, Encoding, Form, build
from posenc_export.arrays import Array
from posenc_export.cli.parameters import parameters_of, parse_parameters
from posenc_export.errors import BadInput, bad_input
from posenc_export.targets.module import run_eager

FILES = (".png", ".svg", ".pdf")
POSITIONS = {"heatmap": 128, "clock": 16, "error": 2**17}
HANDS = 6
METHODS = (
    ("baked", "exact", "table"),
    ("dynamic", "exact", "angle addition"),
    ("dynamic", "trig", "float32 Sin and Cos"),
)
POINTS = 4000


def draw(scheme: str, kind: str, max_len: int | None, params: tuple[str, ...], file: Path) -> None:
    """Draw a scheme into a file; raise BadInput, in one line, where that cannot be done."""
    if file.suffix not in FILES:
        raise BadInput(f"the picture must be one of {', '.join(FILES)}, got {file}")
    if not file.resolve().parent.is_dir():
        raise BadInput(f"no such folder: {file.parent}")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BadInput("plots need matplotlib: pip install 'posenc-export[plot]'") from error
    with bad_input():
        values = parse_parameters(params, parameters_of(SCHEMES[scheme].build), scheme)
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    with bad_input():
        PICTURES[kind](figure, scheme, max_len or POSITIONS[kind], values)
    try:
        figure.savefig(file, dpi=120)
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror}") from error


def rows_of(scheme: str, mode: Any, method: Any, max_len: int, values: dict[str, Any]) -> Encoding:
    """Build what gives rows, or cosines and sines, at positions; raise ValueError where a scheme has no such output."""
    output = parameters_of(SCHEMES[scheme].build).get("output")
    has = [one for one in ("rows", "cos_sin") if output is not None and one in get_args(output.type)]
    if not has:
        raise ValueError(f"{scheme} has no rows to draw: expected one of {', '.join(_drawable())}")
    return build(scheme, Form(mode, method, "explicit", max_len), **{**values, "output": has[0]})


def _drawable() -> list[str]:
    return [s.name for s in SCHEMES.values() if "output" in parameters_of(s.build)]


def rows_at(encoding: Encoding, positions: Array) -> Array:
    """Return an encoding's rows at positions, as float64: (positions, dim); of cos and sin, sines first."""
    return _side_by_side(run_eager(encoding.module, [_fed(encoding, positions)]))


def truth_at(encoding: Encoding, positions: Array) -> Array:
    """Return the rows of the float64 oracle, arranged as by rows_at."""
    found = encoding.truth({"positions": _fed(encoding, positions)}, None)
    return _side_by_side([found[port.name] for port in encoding.outputs])


def _fed(encoding: Encoding, positions: Array) -> Array:
    """Return positions in the shape of an encoding's port, the same along every axis of it."""
    axes = [1 if isinstance(axis, str) else axis for axis in encoding.inputs[0].axes[:-1]]
    return np.broadcast_to(positions, (*axes, len(positions))).copy()


def _side_by_side(outputs: list[Array]) -> Array:
    return np.concatenate([np.asarray(one[0], np.float64) for one in reversed(outputs)], -1)


def heatmap(figure: Any, scheme: str, max_len: int, values: dict[str, Any]) -> None:
    """Draw the table: a row a position, a column a dimension."""
    rows = rows_at(rows_of(scheme, "baked", "exact", max_len, values), np.arange(max_len))
    axes = figure.subplots()
    image = axes.imshow(rows, aspect="auto", cmap="RdBu", interpolation="nearest")
    axes.set(xlabel="dimension", ylabel="position", title=f"{scheme}: {max_len} positions x {rows.shape[1]} dimensions")
    figure.colorbar(image, ax=axes, label="value")


def clock(figure: Any, scheme: str, max_len: int, values: dict[str, Any]) -> None:
    """Draw sine and cosine pairs as hands on the unit circle, the fastest first, at the first positions."""
    encoding = rows_of(scheme, "baked", "exact", max_len, values)
    if scheme == "learned":
        raise ValueError("--kind clock draws pairs of sines and cosines: learned has none")
    rows = rows_at(encoding, np.arange(max_len))
    width = rows.shape[1]
    if width < 2:
        raise ValueError("--kind clock needs a d_model of at least 2: one pair of a sine and a cosine")
    halves = scheme != "sinusoidal" or values.get("layout") == "halves"  # cos and sin are drawn side by side
    sin, cos = (rows[:, : (width + 1) // 2], rows[:, (width + 1) // 2 :]) if halves else (rows[:, ::2], rows[:, 1::2])
    pairs = np.unique(np.linspace(0, cos.shape[1] - 1, min(HANDS, cos.shape[1])).astype(int))
    for axes, pair in zip(np.ravel(figure.subplots(2, -(-len(pairs) // 2), squeeze=False)), pairs, strict=False):
        axes.add_patch(_circle())
        for position in range(max_len):
            fade = 0.15 + 0.85 * position / max(max_len - 1, 1)
            axes.plot([0, cos[position, pair]], [0, sin[position, pair]], color="tab:blue", alpha=fade)
        axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", title=f"pair {pair}")
        axes.set(xlabel="cos", ylabel="sin")
    for axes in figure.axes[len(pairs) :]:
        axes.set_visible(False)
    figure.suptitle(f"{scheme}, {width} dimensions: positions 0 (pale) to {max_len - 1} (dark), faster hands first")


def _circle() -> Any:
    from matplotlib.patches import Circle

    return Circle((0, 0), 1, fill=False, color="lightgrey")


def error(figure: Any, scheme: str, max_len: int, values: dict[str, Any]) -> None:
    """Draw the error against float64 by position, of the three ways to compute an angle, on log scales."""
    if scheme == "learned":
        raise ValueError("--kind error compares ways to compute angles: learned has none")
    positions = np.unique(np.geomspace(1, max_len, POINTS).astype(np.int64) - 1)
    axes = figure.subplots()
    for mode, method, label in METHODS:
        encoding = rows_of(scheme, mode, method, max_len, values)
        worst = np.abs(rows_at(encoding, positions) - truth_at(encoding, positions)).max(axis=1)
        axes.plot(np.maximum(positions, 1), np.maximum(worst, 1e-9), label=label, linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="position", ylabel="largest error of a row against float64")
    axes.set_title(f"{scheme}: three ways to compute one table")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()


PICTURES: dict[str, Callable[[Any, str, int, dict[str, Any]], None]] = {
    "heatmap": heatmap,
    "clock": clock,
    "error": error,
}
