"""Errors by position of the encodings that an ONNX file holds, as `posenc inspect` has measured them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from posenc_export.read import FoundEncoding, Inspection
from posenc_export.show.plots.curves import label_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def by_position(figure: Figure, inspection: Inspection) -> None:
    """Draw a curve for each encoding with a closed form; raise ValueError where there is none."""
    curves = [encoding for encoding in inspection.encodings if encoding.errors is not None]
    if not curves:
        raise ValueError("--plot draws errors against a closed form, and no encoding of this file has one")
    axes = figure.subplots()
    for encoding in curves:
        _curve(axes, encoding)
    bounds = {encoding.errors.bound for encoding in curves if encoding.errors is not None}
    for bound in bounds:
        axes.axhline(bound, color="grey", linewidth=0.8, linestyle=":")
    last = max(encoding.errors.positions[-1] for encoding in curves if encoding.errors is not None)
    # a curve without any error has no points to scale by
    axes.set_xlim(1, max(last, 2))
    label_errors(axes, f"{inspection.file}: error by position")


def _curve(axes: Axes, encoding: FoundEncoding) -> None:
    assert encoding.errors is not None
    positions, errors = (
        np.asarray(values, np.float64) for values in (encoding.errors.positions, encoding.errors.errors)
    )
    # a log scale shows neither position 0, nor an error of 0, nor infinity
    visible = (positions > 0) & (errors > 0) & np.isfinite(errors)
    label = _label(encoding) + ("" if errors.any() else ": no error")
    axes.plot(positions[visible], errors[visible], linewidth=1.5, label=label)


def _label(encoding: FoundEncoding) -> str:
    parts: Sequence[str] = (encoding.family, encoding.name, encoding.dtype)
    return ", ".join(dict.fromkeys(part for part in parts if part))
