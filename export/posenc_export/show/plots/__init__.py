"""Pictures of an encoding: its outputs as heat maps, its pairs as clock hands, its errors by position.

A heat map goes by what ports carry and by the kinds of axes, so that every scheme has one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.registry import Registry
from posenc.scheme import Scheme
from posenc_export.bundle.out_file import OUTPUT, PlaceOption, check_out, whole_file
from posenc_export.common.errors import BadInput, bad_input
from posenc_export.common.install import install_line
from posenc_export.show.plots.by_position import by_position
from posenc_export.show.plots.curves import clock, error
from posenc_export.show.plots.encodings import Parameters, seeded
from posenc_export.show.plots.exported import exported
from posenc_export.show.plots.heat import DPI, SMALL, heatmap
from posenc_export.show.plots.kinds import KINDS, kind_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from posenc_export.read import Inspection

__all__ = ["KINDS", "PICTURES", "check_picture", "draw", "draw_errors", "draw_small", "kind_of", "seeded"]
FILES = (".png", ".svg", ".pdf")
CARD = "#f6f6f6"
"""The background: dark letters stay legible on a dark page."""
COLOURS = 256
Draw = Callable[["Figure", str, int | None, Parameters], None]
"""Draws a scheme on a figure, with a number of positions (None for the usual one) and parameters."""


def draw(
    scheme: str, kind: str, max_len: int | None, parameters: Parameters, file: Path, *, force: bool = False
) -> None:
    """Draw a scheme into a file; raise BadInput, in one line, where that cannot be done.

    Args:
        scheme: its name.
        kind: which picture, of PICTURES.
        max_len: how many positions; None for the usual number.
        parameters: of the scheme.
        file: where the picture goes.
        force: whether a file is replaced that is there.
    """
    check_picture(file, force)
    with whole_file(file, force) as made:
        _drawn(lambda figure: PICTURES[kind](figure, scheme, max_len, parameters), made)


def draw_small(scheme: Scheme, file: Path, *, force: bool = False, option: PlaceOption = OUTPUT) -> None:
    """Draw the smallest sample of a scheme as a .png for a page; raise BadInput, in one line, where it has none."""
    check_picture(file, force, option)
    with whole_file(file, force, option) as made:
        _drawn(lambda figure: heatmap(figure, scheme.name, None, scheme.samples[0], SMALL), made)
        _shrink(made)


def draw_errors(inspection: Inspection, file: Path, *, force: bool = False, option: PlaceOption = OUTPUT) -> None:
    """Draw the errors by position that an inspection has measured; raise BadInput, in one line, where it has none."""
    check_picture(file, force, option)
    with whole_file(file, force, option) as made:
        _drawn(lambda figure: by_position(figure, inspection), made)


def check_picture(file: Path, force: bool, option: PlaceOption = OUTPUT) -> None:
    """Raise BadInput, in one line, where no picture may be written into a file.

    Args:
        file: where the picture goes.
        force: whether a file is replaced that is there.
        option: the option that names the file.
    """
    if file.suffix not in FILES:
        raise BadInput(f"the picture must be one of {', '.join(FILES)}, got {file}")
    check_out(file, "picture.png", force, option)


def _drawn(on: Callable[[Figure], None], file: Path) -> None:
    figure = _figure()
    with bad_input():
        on(figure)
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "posenc"}):  # else an .svg has new ids each time, and a date
        figure.savefig(file, dpi=DPI, metadata={"Date": None} if file.suffix == ".svg" else None)


def _shrink(file: Path) -> None:
    """Write a .png again with few colours, in a quarter of the bytes."""
    from PIL import Image

    with Image.open(file) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def _figure() -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BadInput(f"plots need matplotlib: {install_line('plot')}") from error
    return Figure(figsize=(9, 5.5), layout="constrained", facecolor=CARD)


PICTURES: Registry[Draw] = Registry("picture")
PICTURES.add("heatmap", heatmap)
PICTURES.add("clock", clock)
PICTURES.add("error", error)
PICTURES.add("exported", exported)
