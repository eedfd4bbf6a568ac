"""Pictures of an encoding: its table, its pairs as clock hands, the error of the three ways to compute it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from posenc.scheme import SCHEMES, Encoding, Form, build
from posenc_export.arrays import Array, numpy_dtype
from posenc_export.parameters import parameters_of, parse_parameters
from posenc_export.problems import BadInput, bad_input
from posenc_export.subject import run_eager

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


def rows_at(encoding: Encoding, positions: Array) -> Array:
    """Return an encoding's rows at positions, as float64: (positions, dim)."""
    return np.asarray(run_eager(encoding.module, [positions[None]])[0][0], numpy_dtype("float64"))


def _rows_form(mode: Any, method: Any, max_len: int) -> Form:
    return Form(mode, method, "explicit", max_len)


def heatmap(figure: Any, scheme: str, max_len: int, values: dict[str, Any]) -> None:
    """Draw the table: a row a position, a column a dimension."""
    encoding = build(scheme, _rows_form("baked", "exact", max_len), **{**values, "output": "rows"})
    rows = rows_at(encoding, np.arange(max_len))
    axes = figure.subplots()
    image = axes.imshow(rows, aspect="auto", cmap="RdBu", interpolation="nearest")
    axes.set(xlabel="dimension", ylabel="position", title=f"{scheme}: {max_len} positions x {rows.shape[1]} dimensions")
    figure.colorbar(image, ax=axes, label="value")


def clock(figure: Any, scheme: str, max_len: int, values: dict[str, Any]) -> None:
    """Draw sine and cosine pairs as hands on the unit circle, the fastest first, at the first positions."""
    if scheme != "sinusoidal":
        raise ValueError(f"--kind clock draws pairs of sines and cosines: {scheme} has none")
    encoding = build(scheme, _rows_form("baked", "exact", max_len), **{**values, "output": "rows"})
    rows = rows_at(encoding, np.arange(max_len))
    width = rows.shape[1]
    if width < 2:
        raise ValueError("--kind clock needs a d_model of at least 2: one pair of a sine and a cosine")
    halves = values.get("layout") == "halves"
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
    figure.suptitle(f"{scheme}, d_model {width}: positions 0 (pale) to {max_len - 1} (dark), faster hands first")


def _circle() -> Any:
    from matplotlib.patches import Circle

    return Circle((0, 0), 1, fill=False, color="lightgrey")


def error(figure: Any, scheme: str, max_len: int, values: dict[str, Any]) -> None:
    """Draw the error against float64 by position, of the three ways to compute an angle, on log scales."""
    if scheme != "sinusoidal":
        raise ValueError(f"--kind error compares ways to compute angles: {scheme} has none")
    positions = np.unique(np.geomspace(1, max_len, POINTS).astype(np.int64) - 1)
    axes = figure.subplots()
    for mode, method, label in METHODS:
        encoding = build(scheme, _rows_form(mode, method, max_len), **{**values, "output": "rows"})
        truth = encoding.truth({"positions": positions[None]}, None)["y"][0]
        worst = np.abs(rows_at(encoding, positions) - truth).max(axis=1)
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
