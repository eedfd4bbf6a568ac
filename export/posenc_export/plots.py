"""Pictures of an encoding: its table, its pairs as clock hands, the error of the three ways to compute it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc.encoding import Encoding
from posenc.ports import Array, Floats, Integers
from posenc.registry import Registry
from posenc.scheme import SCHEMES, Scheme, build
from posenc.spec import Method, Mode, Spec
from posenc_export.arrays import call_on_arrays
from posenc_export.errors import BadInput, bad_input

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILES = (".png", ".svg", ".pdf")
HANDS = 6
METHODS: tuple[tuple[Mode, Method, str], ...] = (
    ("baked", "exact", "--baked: a table"),
    ("dynamic", "exact", "--dynamic --method exact: angle addition"),
    ("dynamic", "trig", "--dynamic --method trig: Sin and Cos of float32"),
)
POINTS, BINS = 4000, 300
"""Positions that are tried, and points of a curve: each is the worst from there to the next."""
DPI = 120
WIDTH, HEIGHT, MOST_ROWS = 1024, 640, 1024
"""Pixels of a heat map, as near as whole pixels a cell come; rows above which means are drawn."""
LEFT, RIGHT, BELOW, ABOVE = 100, 140, 70, 50
"""Pixels around it, for what is written there."""
DRAWABLE = ("rows", "cos_sin")
"""Choices of the parameter `output` with which an encoding gives rows at positions."""
Values = Mapping[str, object]


@dataclass(frozen=True)
class Picture:
    """A kind of picture: `draw(figure, scheme, max_len, parameters)`, and how many positions it has by default."""

    draw: Callable[[Figure, str, int, Values], None]
    positions: int


def draw(scheme: str, kind: str, max_len: int | None, parameters: Values, file: Path) -> None:
    """Draw a scheme into a file; raise BadInput, in one line, where that cannot be done."""
    if file.suffix not in FILES:
        raise BadInput(f"the picture must be one of {', '.join(FILES)}, got {file}")
    if not file.resolve().parent.is_dir():
        raise BadInput(f"no such folder: {file.parent}")
    figure = _figure()
    with bad_input():
        picture = PICTURES[kind]
        picture.draw(figure, scheme, picture.positions if max_len is None else max_len, parameters)
    try:
        figure.savefig(file, dpi=DPI)
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror}") from error


def _figure() -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BadInput("plots need matplotlib: pip install 'posenc-export[plot]'") from error
    return Figure(figsize=(9, 5.5), layout="constrained")


def rows_of(scheme: str, mode: Mode, method: Method, max_len: int, parameters: Values) -> Encoding:
    """Build what gives rows, or cosines and sines, at positions; raise ValueError where a scheme has no such output."""
    output = _output_of(SCHEMES[scheme])
    if output is None:
        drawable = ", ".join(s.name for s in SCHEMES.values() if _output_of(s) is not None)
        raise ValueError(f"{scheme} has no rows to draw: expected one of {drawable}")
    return build(scheme, Spec(mode, method, "explicit", max_len), **{**parameters, "output": output})


def _output_of(scheme: Scheme) -> str | None:
    """Return the output with which a scheme gives rows at positions; None where it has none."""
    parameter = scheme.parameters.get("output")
    return None if parameter is None else next((one for one in DRAWABLE if one in parameter.choices), None)


def rows_at(encoding: Encoding, positions: Integers) -> Floats:
    """Return an encoding's rows at positions, as float64: (positions, dim); of cos and sin, sines first."""
    arrays = call_on_arrays(encoding.module, [_fed(encoding, positions)])
    return _joined(encoding, dict(zip([port.name for port in encoding.outputs], arrays, strict=True)))


def reference_at(encoding: Encoding, positions: Integers) -> Floats:
    """Return the rows of the float64 reference, arranged as by rows_at."""
    return _joined(encoding, encoding.reference({encoding.inputs[0].name: _fed(encoding, positions)}, None))


def _fed(encoding: Encoding, positions: Integers) -> Integers:
    """Return positions in the shape of an encoding's port, the same along every axis of it."""
    axes = [axis.size or 1 for axis in encoding.inputs[0].axes[:-1]]
    return np.broadcast_to(positions, (*axes, len(positions))).copy()


def _joined(encoding: Encoding, outputs: Mapping[str, Array]) -> Floats:
    names = [port.name for port in encoding.outputs]
    names = names[::-1] if encoding.family == "cos_sin" else names  # sines first
    return np.concatenate([np.asarray(outputs[name][0], np.float64) for name in names], -1)


def heatmap(figure: Figure, scheme: str, max_len: int, parameters: Values) -> None:
    """Draw the table: a row a position, a column a dimension, each of as many pixels as every other."""
    encoding = rows_of(scheme, "baked", "exact", max_len, parameters)
    rows = rows_at(encoding, np.arange(max_len))
    shown = thinned(rows, MOST_ROWS)
    axes, bar = _in_pixels(figure, *shown.shape)
    extent = (-0.5, rows.shape[1] - 0.5, max_len - 0.5, -0.5)
    image = axes.imshow(shown, extent=extent, aspect="auto", cmap="RdBu", interpolation="nearest")
    mean = "" if len(shown) == len(rows) else f", means of about {round(2 * len(rows) / len(shown))} positions"
    axes.set(xlabel=_columns(encoding, rows.shape[1]), ylabel=_position(encoding))
    axes.set_title(f"{_named(scheme, encoding, rows.shape[1], parameters)}: {max_len} positions{mean}")
    if encoding.family == "cos_sin":
        axes.axvline(rows.shape[1] / 2 - 0.5, color="black", linewidth=1)
    figure.colorbar(image, cax=bar, label="value")


def _in_pixels(figure: Figure, rows: int, columns: int) -> tuple[Axes, Axes]:
    """Return axes in which each cell of a table has a whole number of pixels, and those of a bar beside them.

    Cells of 1.6 pixels are drawn as one or two: that gives stripes which no table has.
    """
    width, height = columns * max(1, WIDTH // columns), rows * max(1, HEIGHT // rows)
    whole = (width + LEFT + RIGHT, height + BELOW + ABOVE)
    figure.set_layout_engine("none")
    figure.set_dpi(DPI)
    figure.set_size_inches(whole[0] / DPI, whole[1] / DPI)

    def box(left: int, wide: int) -> tuple[float, float, float, float]:
        return left / whole[0], BELOW / whole[1], wide / whole[0], height / whole[1]

    return figure.add_axes(box(LEFT, width)), figure.add_axes(box(LEFT + width + 20, 20))


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


def _named(scheme: str, encoding: Encoding, width: int, parameters: Values) -> str:
    """Return a scheme with its width, under the name of its parameter."""
    if encoding.family != "cos_sin":
        return f"{scheme}, d_model {width}"
    return f"{scheme}, head_dim {parameters.get('head_dim', SCHEMES[scheme].parameters['head_dim'].default)}"


def _columns(encoding: Encoding, width: int) -> str:
    """Return which columns are sines."""
    half = (width + 1) // 2
    if encoding.family == "cos_sin":
        return f"dimension of sin (0 to {half - 1}), then of cos ({half} to {width - 1})"
    halves = f"dimension: 0 to {half - 1} are sines, {half} to {width - 1} cosines"
    words = {"interleaved": "dimension: even ones are sines, odd ones cosines", "halves": halves}
    return words.get(encoding.tables().layout or "", "dimension")


def _position(encoding: Encoding) -> str:
    """Return what a position p is, in words: a token may have several."""
    count = encoding.inputs[0].axes[0].size
    return "position" if count is None else f"position p, on each of {count} axes: ({', '.join('p' * count)})"


def clock(figure: Figure, scheme: str, max_len: int, parameters: Values) -> None:
    """Draw sine and cosine pairs as hands on the unit circle, the fastest first, at the first positions."""
    encoding = rows_of(scheme, "baked", "exact", max_len, parameters)
    layout = encoding.tables().layout
    if layout is None:
        raise ValueError(f"--kind clock draws pairs of sines and cosines: {scheme} has none")
    rows = rows_at(encoding, np.arange(max_len))
    width = rows.shape[1]
    if width < 2:
        raise ValueError("--kind clock needs a d_model of at least 2: one pair of a sine and a cosine")
    sin, cos = _sines_and_cosines(rows, layout)
    pairs = np.unique(np.linspace(0, cos.shape[1] - 1, min(HANDS, cos.shape[1])).astype(int))
    places = np.ravel(figure.subplots(2, -(-len(pairs) // 2), squeeze=False))
    for axes, pair in zip(places, pairs, strict=False):
        _hands(axes, sin[:, pair], cos[:, pair])
        axes.set(title=f"pair {pair}")
    for axes in places[len(pairs) :]:
        axes.set_visible(False)
    named = _named(scheme, encoding, width, parameters)
    figure.suptitle(f"{named}: positions 0 (pale) to {max_len - 1} (dark), faster hands first")


def _sines_and_cosines(rows: Floats, layout: str) -> tuple[Floats, Floats]:
    """Return the columns of sines, and those of cosines; an odd row has one sine more."""
    if layout == "interleaved":
        return rows[:, ::2], rows[:, 1::2]
    sines = (rows.shape[1] + 1) // 2
    return rows[:, :sines], rows[:, sines:]


def _hands(axes: Axes, sin: Floats, cos: Floats) -> None:
    """Draw one pair at every position, the later the darker."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color="lightgrey"))
    for alpha, x, y in zip(np.linspace(0.15, 1, len(sin)), cos, sin, strict=True):
        axes.plot([0, x], [0, y], color="tab:blue", alpha=alpha)
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", xlabel="cos", ylabel="sin")


def error(figure: Figure, scheme: str, max_len: int, parameters: Values) -> None:
    """Draw the error against float64 by position, of the three forms of a scheme, on log scales.

    They begin at position 1: at 0 all forms are exact, which no log scale can show.
    """
    if max_len < 2:
        raise ValueError("--kind error needs --max-len of at least 2: position 0 has no place on a log scale")
    positions = np.unique(np.geomspace(1, max_len - 1, POINTS).astype(np.int64))
    starts = np.unique(np.searchsorted(positions, np.geomspace(1, max_len - 1, BINS)[:-1].astype(np.int64)))
    axes = figure.subplots()
    for mode, method, label in METHODS:
        encoding = rows_of(scheme, mode, method, max_len, parameters)
        rows = rows_at(encoding, positions)
        worst = np.maximum.reduceat(np.abs(rows - reference_at(encoding, positions)).max(axis=1), starts)
        axes.plot(positions[starts], np.where(worst > 0, worst, np.nan), label=label, linewidth=1.5)
    axes.set(xscale="log", yscale="log", xlabel="position, from 1 on", ylabel="largest error of a row against float64")
    axes.set_title(f"{_named(scheme, encoding, rows.shape[1], parameters)}: the error of its three forms")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()


PICTURES: Registry[Picture] = Registry("picture")
PICTURES.add("heatmap", Picture(heatmap, 128))
PICTURES.add("clock", Picture(clock, 16))
PICTURES.add("error", Picture(error, 2**17))
