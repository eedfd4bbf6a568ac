"""Rows of an encoding as clock hands, and the errors of its three forms by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Floats, Integers
from posenc_export.show.plots.encodings import METHODS, Parameters
from posenc_export.show.plots.heat import named
from posenc_export.show.plots.rows import reference_at, rows_at, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HANDS = 6
CLOCK_POSITIONS, ERROR_POSITIONS = 16, 2**17
"""The usual number of positions of a clock, and of the curves of errors."""
POINTS, BINS = 4000, 300
"""Positions that are tried, and points of a curve: a point is the largest error up to the next point."""


def clock(figure: Figure, scheme: str, max_len: int | None, parameters: Parameters) -> None:
    """Draw pairs of a sine and a cosine as hands on the unit circle at the first positions, the fastest pair first."""
    count = max_len or CLOCK_POSITIONS
    encoding = rows_of(scheme, "baked", "exact", count, parameters)
    layout = encoding.tables().layout
    if layout is None:
        raise ValueError(f"--kind clock draws pairs of sines and cosines: {scheme} has none")
    rows = rows_at(encoding, np.arange(count))
    width = rows.shape[1]
    if width < 2:
        raise ValueError("--kind clock needs a d_model of at least 2: one pair of a sine and a cosine")
    sin, cos = _sines_and_cosines(rows, layout)
    # from the fastest pair to the slowest, evenly
    pairs = np.unique(np.linspace(0, cos.shape[1] - 1, min(HANDS, cos.shape[1])).astype(int))
    places = np.ravel(figure.subplots(2, -(-len(pairs) // 2), squeeze=False))
    for axes, pair in zip(places, pairs, strict=False):
        _hands(axes, sin[:, pair], cos[:, pair])
        axes.set(title=f"pair {pair}")
    for axes in places[len(pairs) :]:
        axes.set_visible(False)
    figure.suptitle(f"{named(scheme, parameters)}: positions 0 (pale) to {count - 1} (dark), faster hands first")


def _sines_and_cosines(rows: Floats, layout: str) -> tuple[Floats, Floats]:
    """Return the columns of sines and the columns of cosines; a row of odd width has one more sine."""
    if layout == "interleaved":
        return rows[:, ::2], rows[:, 1::2]
    # halves: sines first
    sines = (rows.shape[1] + 1) // 2
    return rows[:, :sines], rows[:, sines:]


def _hands(axes: Axes, sin: Floats, cos: Floats) -> None:
    """Draw one pair at every position: later positions are darker."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color="lightgrey"))
    for alpha, x, y in zip(np.linspace(0.15, 1, len(sin)), cos, sin, strict=True):
        axes.plot([0, x], [0, y], color="tab:blue", alpha=alpha)
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", xlabel="cos", ylabel="sin")


def error(figure: Figure, scheme: str, max_len: int | None, parameters: Parameters) -> None:
    """Draw the errors of the three forms of a scheme against float64, by position, on log scales."""
    count = max_len or ERROR_POSITIONS
    positions, starts = positions_tried(count)
    axes = figure.subplots()
    for mode, method, label in METHODS:
        encoding = rows_of(scheme, mode, method, count, parameters)
        errors = np.abs(rows_at(encoding, positions) - reference_at(encoding, positions)).max(axis=1)
        worst = largest_errors(errors, starts)
        axes.plot(positions[starts], worst, label=label, linewidth=1.5)
    label_errors(axes, f"{named(scheme, parameters)}: the error of its three forms")


def label_errors(axes: Axes, title: str) -> None:
    """Give curves of errors by position, on both log scales, their labels, a title and a legend."""
    axes.set(xscale="log", yscale="log", xlabel="position, from 1 on", ylabel="largest error of a row against float64")
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()


def positions_tried(count: int) -> tuple[Integers, Integers]:
    """Return positions from 1 to count - 1, and the indices among them at which the points of a curve begin.

    Both are evenly spaced on a log scale, which cannot show position 0. Raises ValueError for a count below 2.
    """
    if count < 2:
        raise ValueError("errors by position need --max-len of at least 2: position 0 has no place on a log scale")
    # rounding makes the first positions equal: each is tried once
    positions = np.unique(np.geomspace(1, count - 1, POINTS).astype(np.int64))
    return positions, np.unique(np.searchsorted(positions, np.geomspace(1, count - 1, BINS)[:-1].astype(np.int64)))


def largest_errors(errors: Floats, starts: Integers) -> Floats:
    """Return the largest error from each start to the next; NaN instead of 0, which a log scale cannot show."""
    largest = np.maximum.reduceat(errors, starts)
    return np.where(largest > 0, largest, np.nan)
