"""Heat maps, each cell of as many pixels as every other."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Floats
from posenc_export.plots.encodings import Parameters, drawn
from posenc_export.plots.sheet import Sheet, sheet_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 120
MOST_ROWS = 1024
"""Rows of a map above which means are drawn."""
LEFT, RIGHT, BELOW, ABOVE = 100, 140, 70, 50
"""Pixels around the maps, for what is written there."""
BESIDE, BETWEEN, A_ROW = 16, 34, 4
"""Pixels between maps side by side, and one above the other; maps in a row, at most."""
LINE, LETTERS = 20, 10
"""Pixels of a line of the title, and its letters on an inch."""


@dataclass(frozen=True)
class Canvas:
    """Pixels of all maps together, as near as whole pixels a cell come."""

    width: int = 1024
    height: int = 640


SMALL = Canvas(660, 280)
"""For pictures on a page."""


def heatmap(
    figure: Figure, scheme: str, max_len: int | None, parameters: Parameters, canvas: Canvas | None = None
) -> None:
    """Draw what an encoding gives: a table of positions x features, or maps of a grid, or of queries x keys."""
    call = drawn(scheme, max_len, parameters)
    sheet = sheet_of(call)
    shown = [_thin(panel.values, sheet.square) for panel in sheet.panels]
    title = f"{named(scheme, parameters)}: {sheet.what}{_mean(shown[0], sheet)}{', of ones' if call.fill else ''}"
    places, bar = _in_pixels(figure, sheet, shown[0].shape, canvas or Canvas(), title)
    low, high, colours = _scale(shown)
    for i, (axes, values) in enumerate(zip(places, shown, strict=True)):
        extent = _extent(sheet.panels[i].values.shape, sheet.ends)
        image = axes.imshow(
            values, extent=extent, aspect="auto", cmap=colours, vmin=low, vmax=high, interpolation="nearest"
        )
        _write(axes, i, sheet)
    figure.colorbar(image, cax=bar, label="value")


def named(scheme: str, parameters: Parameters) -> str:
    """Return a scheme with the parameters that are given."""
    return ", ".join([scheme, *(f"{name} {_text(value)}" for name, value in parameters.items())])


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _mean(shown: Floats, sheet: Sheet) -> str:
    rows = len(sheet.panels[0].values)
    return "" if len(shown) == rows else f", means of about {round(2 * rows / len(shown))} positions"


def _thin(values: Floats, square: bool) -> Floats:
    thin = thinned(values, MOST_ROWS)
    return thinned(thin.T, MOST_ROWS).T if square else thin


def thinned(rows: Floats, most: int) -> Floats:
    """Return at most so many rows: each a weighted mean of four blocks of them, (positions, dim) -> (n, dim).

    What moves faster than the rows that are left could show is even then, and not a pattern of its own: to take each
    n-th row, or plain means, would show waves that are not there.
    """
    step = -(-len(rows) // most)
    if step == 1:
        return rows
    window = np.hanning(4 * step + 2)[1:-1].reshape(4, step)
    blocks = rows[: len(rows) // step * step].reshape(-1, step, rows.shape[1])
    parts = np.einsum("bsd,js->jbd", blocks, window / window.sum())
    count = len(blocks) - 3
    return np.asarray(sum(part[j : j + count] for j, part in enumerate(parts)))


def _scale(shown: list[Floats]) -> tuple[float, float, str]:
    """Return the least value, the largest, and colours; where there are both signs white is zero."""
    values = np.concatenate([one[np.isfinite(one)] for one in shown])  # what is masked is infinite
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if low < 0 < high:
        most = max(-low, high)
        return -most, most, "RdBu"
    return low, high, "viridis"


def _extent(shape: tuple[int, ...], ends: tuple[float, float]) -> tuple[float, float, float, float]:
    """Return what the edges of a map are: half a cell beyond the first row and column, and the last."""
    rows, columns = shape
    half = (ends[1] - ends[0]) / max(rows - 1, 1) / 2 or 0.5
    return -0.5, columns - 0.5, ends[1] + half, ends[0] - half


def _write(axes: Axes, i: int, sheet: Sheet) -> None:
    """Write what runs along the sides of map i: in a row of maps at the first, and below the last alone."""
    from matplotlib.ticker import MaxNLocator

    for split in sheet.splits:
        axes.axvline(split - 0.5, color="black", linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(6 if len(sheet.panels) == 1 else 3, integer=True))
    axes.set_title(sheet.panels[i].title, fontsize="small", pad=3)
    across = _in_a_row(len(sheet.panels))
    first, last = i % across == 0, i + across >= len(sheet.panels)
    axes.set_xlabel(sheet.across if last else "")
    axes.set_ylabel(sheet.down if first else "")
    axes.tick_params(labelleft=first, labelbottom=last)


def _in_pixels(
    figure: Figure, sheet: Sheet, shape: tuple[int, ...], canvas: Canvas, title: str
) -> tuple[list[Axes], Axes]:
    """Return axes in which each cell of a map has a whole number of pixels, and those of a bar beside them.

    Cells of 1.6 pixels are drawn as one or two: that gives stripes which no table has.
    """
    count = len(sheet.panels)
    across = _in_a_row(count)
    down = -(-count // across)
    width, height = _cells(shape, (across, down), canvas, sheet.square)
    wide, high = across * (width + BESIDE) - BESIDE, down * (height + BETWEEN) - BETWEEN
    lines = textwrap.wrap(title, LETTERS * (wide + LEFT + RIGHT) // DPI)
    above = ABOVE + LINE * (len(lines) - 1) + (LINE if sheet.panels[0].title else 0)
    whole = (wide + LEFT + RIGHT, high + BELOW + above)
    figure.set_layout_engine("none")
    figure.set_dpi(DPI)
    figure.set_size_inches(whole[0] / DPI, whole[1] / DPI)

    def box(left: int, top: int, wide: int, high: int) -> Axes:
        bottom = whole[1] - above - top - high
        return figure.add_axes((left / whole[0], bottom / whole[1], wide / whole[0], high / whole[1]))

    corners = [divmod(i, across) for i in range(count)]
    places = [box(LEFT + x * (width + BESIDE), y * (height + BETWEEN), width, height) for y, x in corners]
    figure.suptitle("\n".join(lines), y=1 - 12 / whole[1], va="top", fontsize="large")
    return places, box(LEFT + wide + 20, 0, 20, high)


def _in_a_row(count: int) -> int:
    """Return how many maps lie side by side, so that rows of them are as full as they can be."""
    return -(-count // -(-count // A_ROW))


def _cells(shape: tuple[int, ...], maps: tuple[int, int], canvas: Canvas, square: bool) -> tuple[int, int]:
    """Return the pixels of one map, across and down: each cell is as wide as high where rows and columns are alike."""
    rows, columns = shape
    cell = max(1, round(canvas.width / (columns * maps[0]))), max(1, round(canvas.height / (rows * maps[1])))
    cell = (min(cell), min(cell)) if square else cell
    return columns * cell[0], rows * cell[1]
