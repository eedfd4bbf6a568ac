"""The sines and cosines of DETR (arXiv:2005.12872) for places of padded images, as fractions of the valid size.

    y = scale * (valid places up to here in this column + shift) / (valid places in this column + 1e-6), x alike
    PE = sin(y / T^0), cos(y / T^0), sin(y / T^(2 / n)), cos(y / T^(2 / n)), ..., then those of x; n = dim / 2

Conditional DETR, MaskFormer and SAM 2 have the same, Grounding DINO has a temperature of 20, Deformable DETR a shift of
-0.5. RT-DETR takes rows and columns 0, 1, ... themselves: that is the scheme `sincos_2d` with order=row_first.
A fully padded axis counts as having one valid place; Deformable DETR's formula would give it -0.5 / 1e-6.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from posenc import reasons
from posenc.encoding import Encoding
from posenc.formulas.sine_2d import Sine2dParameters, reference
from posenc.ranges import above, multiple_of
from posenc.scheme import Unsupported, scheme
from posenc.sincos import check_table, inverse_frequencies, sincos
from posenc.sources.grid import encode as grid
from posenc.sources.grid.axis_rows import CountRows, Counts
from posenc.sources.grid.fractions import AxisFraction, fraction_rows
from posenc.spec import Spec

SMALL = 1e-6
"""DETR adds it to the number of places that it divides by."""
FEW = 256
"""The default max_len where a table holds the places of every size."""


def rows_of(parameters: Mapping[str, object]) -> int | None:
    """Return the default places of an axis where tables grow with the square of them."""
    return FEW if parameters.get("normalize", True) else None


@scheme(
    "sine_2d",
    rows=rows_of,
    paper="arXiv:2005.12872; Deformable DETR (arXiv:2010.04159), Grounding DINO (arXiv:2303.05499)",
    positions="mask",
    formula="PE[y, x] = (w(y / height), w(x / width)); w(p) = sin(2 pi p T^(-2 i / n)), its cos, ...; n = dim / 2",
    models=("DETR", "Conditional DETR", "Deformable DETR", "Grounding DINO", "MaskFormer", "Mask2Former", "SAM 2"),
    samples=({"dim": 8}, {"dim": 12, "temperature": 20.0, "shift": -0.5}, {"dim": 8, "normalize": False}),
    unsupported=Unsupported(positions=reasons.GRID),
)
def sine_2d(
    spec: Spec,
    *,
    dim: Annotated[int, multiple_of(4)] = 256,
    temperature: Annotated[float, above(1)] = 10000.0,
    normalize: bool = True,
    scale: Annotated[float, above(0)] = 2 * math.pi,
    shift: float = 0.0,
    order: Literal["row_first", "column_first"] = "row_first",
    tensor_layout: Literal["bdhw", "bhwd"] = "bdhw",
) -> Encoding:
    """Sines and cosines of the valid places of padded images, or, with --positions implicit, of images without padding.

    Args:
        dim: features, a multiple of four; one half goes by the row, the other by the column.
        temperature: wavelengths grow geometrically from 2 pi to temperature * 2 pi.
        normalize: count places as fractions of those that are valid; else 1, 2, 3, ...
        scale: the whole of a row or column, in radians of the first frequency.
        shift: what is added to a count before it is divided, -0.5 for the middle of places (Deformable DETR).
        order: whose half comes first, "row_first" as in DETR, or "column_first".
        tensor_layout: "bdhw" (batch, dim, height, width) or "bhwd" (batch, height, width, dim), of x and of the output.
    """
    _check(spec, shift)
    fraction = AxisFraction(scale, shift, SMALL) if normalize else None
    source = _source(spec, dim // 2, temperature, fraction)
    layout = grid.GridLayout(
        ("height", "width"),
        (0, 1) if order == "row_first" else (1, 0),
        "interleaved",
        add=False,
        channels_first=tensor_layout == "bdhw",
    )
    parameters = Sine2dParameters(dim, temperature, normalize, scale, shift, order, tensor_layout)
    formula = partial(reference, spec, parameters=parameters)
    if spec.positions == "mask":
        return grid.encode_masked(source, dim // 2, spec, layout, formula=formula)
    return grid.encode([source, source], [dim // 2] * 2, spec, layout, formula=formula)


def _check(spec: Spec, shift: float) -> None:
    if not -1 <= shift <= 1:
        raise ValueError(f"shift must be within one place, from -1 to 1, got {shift}")
    if spec.position_offset:
        raise ValueError(f"position_offset must be 0: valid places are counted from 1, got {spec.position_offset}")


def _source(spec: Spec, width: int, temperature: float, fraction: AxisFraction | None) -> CountRows:
    inv_freq = inverse_frequencies(width, temperature)
    if fraction is not None:
        return fraction_rows(fraction, inv_freq, spec, interleaved=True)
    counted = replace(spec, max_len=spec.max_len + 1)  # counts from 0, where padding comes first, up to max_len
    check_table(counted, width)
    return Counts(sincos(counted, inv_freq, interleaved=True))
