"""Heat maps: all cells have the same whole number of pixels."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from posenc.ports import Floats
from posenc_export.show.plots.encodings import Parameters, drawn
from posenc_export.show.plots.sheet import Sheet, sheet_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Formatter

DPI = 120
MAX_ROWS = 1024
"""With more rows, a map shows means of rows."""
LEFT, RIGHT, BELOW, ABOVE = 100, 140, 70, 50
"""Margins around the maps, in pixels."""
BESIDE, BETWEEN, A_ROW = 16, 34, 4
"""Pixels between maps side by side, and between rows of maps; the largest number of maps in a row."""
LINE, LETTERS = 20, 10
"""Pixels of a line of the title, and its letters on an inch."""


@dataclass(frozen=True)
class Canvas:
    """The size of all maps together, in pixels; whole pixels a cell come near to it."""

    width: int = 1024
    height: int = 640


SMALL = Canvas(660, 280)
"""For pictures on a page."""


def heatmap(
    figure: Figure, scheme: str, max_len: int | None, parameters: Parameters, canvas: Canvas | None = None
) -> None:
    """Draw the outputs of an encoding: positions x features, or maps of a grid, or of queries x keys."""
    call = drawn(scheme, max_len, parameters)
    sheet = sheet_of(call)
    ones = ", of ones" if call.fill else ""
    values = sheet.panels[0].values
    if len(sheet.panels) == 1 and values.shape[1] == 1:
        _curve(figure, values[:, 0], sheet, f"{named(scheme, parameters)}: {sheet.amount}{ones}")
        return
    shown = [_thin(panel.values, sheet.square) for panel in sheet.panels]
    title = f"{named(scheme, parameters)}: {sheet.amount}{_mean(shown[0], sheet)}{ones}"
    places, bar, label = _in_pixels(figure, sheet, shown[0].shape, canvas or Canvas(), title)
    low, high, colours = _scale(shown)
    for i, (axes, values) in enumerate(zip(places, shown, strict=True)):
        extent = _extent(sheet.panels[i].values.shape, sheet.ends)
        image = axes.imshow(
            values, extent=extent, aspect="auto", cmap=colours, vmin=low, vmax=high, interpolation="nearest"
        )
        _write(axes, i, sheet, label)
    figure.colorbar(image, cax=bar, label="value", format=_numbers())


def _numbers() -> Formatter:
    """Return what writes the numbers of a colour bar: a power of ten stands above it, as its name has little room."""
    from matplotlib.ticker import ScalarFormatter

    numbers = ScalarFormatter()
    numbers.set_powerlimits((-3, 4))
    return numbers


def _curve(figure: Figure, numbers: Floats, sheet: Sheet, title: str) -> None:
    """Draw a single number for each row as steps: a map of one column would show a stripe, and axes without meaning."""
    axes = figure.add_subplot()
    axes.step(np.linspace(*sheet.ends, len(numbers)), numbers, where="post")
    axes.set_xlabel(sheet.down)
    axes.set_ylabel("value")
    axes.set_title(title, fontsize="large")


def named(scheme: str, parameters: Parameters) -> str:
    """Return the name of a scheme with the parameters that were typed."""
    return ", ".join([scheme, *(f"{name} {_text(value)}" for name, value in parameters.items())])


def _text(value: object) -> str:
    if isinstance(value, str) and value.startswith("{"):
        # an object of JSON: its names, as its numbers would fill the title
        return ", ".join(json.loads(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _mean(shown: Floats, sheet: Sheet) -> str:
    rows = len(sheet.panels[0].values)
    return "" if len(shown) == rows else f", means of about {round(2 * rows / len(shown))} positions"


def _thin(values: Floats, square: bool) -> Floats:
    thin = thinned(values, MAX_ROWS)
    return thinned(thin.T, MAX_ROWS).T if square else thin


def thinned(rows: Floats, max_rows: int) -> Floats:
    """Return at most max_rows weighted means of four blocks of rows: (positions, dim) -> (n, dim).

    Waves that are too fast for n rows become even. Every n-th row, or plain means, would show slow waves instead.
    """
    step = -(-len(rows) // max_rows)
    if step == 1:
        return rows
    # (4 * step) weights of a smooth bump, as four rows of a block each
    window = np.hanning(4 * step + 2)[1:-1].reshape(4, step)
    # (positions, dim) -> (blocks, step, dim)
    blocks = rows[: len(rows) // step * step].reshape(-1, step, rows.shape[1])
    # (blocks, step, dim), (4, step) -> (4, blocks, dim)
    parts = np.einsum("bsd,js->jbd", blocks, window / window.sum())
    # a mean spans four blocks
    count = len(blocks) - 3
    return np.asarray(sum(part[j : j + count] for j, part in enumerate(parts)))


def _scale(shown: list[Floats]) -> tuple[float, float, str]:
    """Return the least value, the largest, and the colour map; with both signs, white is zero."""
    values = np.concatenate([part[np.isfinite(part)] for part in shown])  # masked scores are infinite
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if low < 0 < high:
        peak = max(-low, high)
        return -peak, peak, "RdBu"
    return low, high, "viridis"


def _extent(shape: tuple[int, ...], ends: tuple[float, float]) -> tuple[float, float, float, float]:
    """Return the edges of a map: half a cell beyond the first and the last row and column."""
    rows, columns = shape
    half = (ends[1] - ends[0]) / max(rows - 1, 1) / 2 or 0.5
    return -0.5, columns - 0.5, ends[1] + half, ends[0] - half


def _write(axes: Axes, i: int, sheet: Sheet, label: str) -> None:
    """Label the sides of map i: the left side in the first column, the lower side, by a label, in the last row."""
    from matplotlib.ticker import MaxNLocator

    for split in sheet.splits:
        axes.axvline(split - 0.5, color="black", linewidth=1)
    axes.xaxis.set_major_locator(MaxNLocator(6 if len(sheet.panels) == 1 else 3, integer=True))
    axes.set_title(sheet.panels[i].title, fontsize="small", pad=3)
    across = _in_a_row(len(sheet.panels))
    first, last = i % across == 0, i + across >= len(sheet.panels)
    axes.set_xlabel(label if last else "")
    axes.set_ylabel(sheet.down if first else "")
    axes.tick_params(labelleft=first, labelbottom=last)


def _in_pixels(
    figure: Figure, sheet: Sheet, shape: tuple[int, ...], canvas: Canvas, title: str
) -> tuple[list[Axes], Axes, str]:
    """Return the axes of the maps, in which a cell has whole pixels, those of the colour bar, and the lower label.

    Cells of 1.6 pixels would be drawn as one or two, in stripes that the table does not have.
    """
    count = len(sheet.panels)
    across = _in_a_row(count)
    down = -(-count // across)
    width, height = _cells(shape, (across, down), canvas, sheet.square)
    wide, high = across * (width + BESIDE) - BESIDE, down * (height + BETWEEN) - BETWEEN
    lines = textwrap.wrap(title, LETTERS * (wide + LEFT + RIGHT) // DPI)
    above = ABOVE + LINE * (len(lines) - 1) + (LINE if sheet.panels[0].title else 0)
    # the label stands below the middle of the maps: what is wider on the right is of no use to it
    label = textwrap.wrap(sheet.across, LETTERS * (wide + LEFT) // DPI)
    below = BELOW + LINE * (len(label) - 1)
    whole = (wide + LEFT + RIGHT, high + below + above)
    # matplotlib must not move what is placed to the pixel
    figure.set_layout_engine("none")
    figure.set_dpi(DPI)
    figure.set_size_inches(whole[0] / DPI, whole[1] / DPI)

    def box(left: int, top: int, wide: int, high: int) -> Axes:
        bottom = whole[1] - above - top - high
        return figure.add_axes((left / whole[0], bottom / whole[1], wide / whole[0], high / whole[1]))

    corners = [divmod(i, across) for i in range(count)]
    places = [box(LEFT + x * (width + BESIDE), y * (height + BETWEEN), width, height) for y, x in corners]
    figure.suptitle("\n".join(lines), y=1 - 12 / whole[1], va="top", fontsize="large")
    return places, box(LEFT + wide + 20, 0, 20, high), "\n".join(label)


def _in_a_row(count: int) -> int:
    """Return the number of maps side by side that fills the rows of maps best."""
    return -(-count // -(-count // A_ROW))


def _cells(shape: tuple[int, ...], maps: tuple[int, int], canvas: Canvas, square: bool) -> tuple[int, int]:
    """Return the pixels of one map, across and down; cells are square where rows and columns are of one kind."""
    rows, columns = shape
    cell = max(1, round(canvas.width / (columns * maps[0]))), max(1, round(canvas.height / (rows * maps[1])))
    # a cell of queries x keys is square
    cell = (min(cell), min(cell)) if square else cell
    return columns * cell[0], rows * cell[1]
