"""Fixed sines and cosines of the places of a grid: half of the features by the row, half by the column.

MAE (arXiv:2111.06377), SD3 and CogVideoX have the column first, though their code calls it "h"; MoCo v3 and RT-DETR the
row. timm's build_sincos2d_pos_embed is row_first: interleave_sin_cos=True is layout=halves here, False is sines_first;
reverse_coord=True goes through the places of a grid whose height and width are exchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

import numpy as np

from posenc import reasons
from posenc.encoding import Encoding
from posenc.formulas.sincos_2d import Sincos2dParameters, reference
from posenc.ports import Floats
from posenc.ranges import above, minimum, multiple_of
from posenc.scheme import Unsupported, scheme
from posenc.sincos import check_table, sincos
from posenc.sources.grid import encode as grid
from posenc.sources.grid.axis_rows import AxisRows, CenterCrop
from posenc.sources.grid.fractions import AxisFraction, fraction_rows
from posenc.spec import Spec

FEW = 256
"""The default max_len where a table holds the places of every size."""


@dataclass(frozen=True)
class AxisCoordinates:
    """The coordinates of places along an axis: 0, 1, ... times a step.

    Args:
        crop: the places of a longer axis whose middle they are.
        base: the length of each axis, whatever its size; None where the distance of neighbours is 1.
        scale: divides all coordinates.
    """

    crop: int | None
    base: int | None
    scale: float

    @property
    def step(self) -> float:
        """The distance of neighbours, where it is the same in every call."""
        return (1.0 if self.base is None or self.crop is None else self.base / self.crop) / self.scale

    @property
    def relative(self) -> bool:
        """Whether coordinates depend on the size of a call."""
        return self.base is not None and self.crop is None


def rows_of(parameters: Mapping[str, object]) -> int | None:
    """Return the places of an axis: those of the crop, or a few where tables grow with the square of them."""
    crop = parameters.get("crop")
    if isinstance(crop, int):
        return crop
    return None if parameters.get("base_size") is None else FEW


@scheme(
    "sincos_2d",
    rows=rows_of,
    paper="arXiv:2111.06377; MoCo v3 (arXiv:2104.02057) and SD3 (arXiv:2403.03206) have it, too",
    formula="PE[y, x] = (w(x), w(y)); w(p) = sin(p base^(-i / n)) for i < n, then cos; n = dim / 4",
    models=("ViT-MAE", "MoCo v3", "RT-DETR", "D-FINE", "SD3", "DiT", "PixArt", "AIMv2"),
    samples=({"dim": 8}, {"dim": 20, "base": 100.0, "crop": 90, "base_size": 64}, {"dim": 8, "base_size": 16}),
    unsupported=Unsupported(
        positions={
            **reasons.GRID,
            "mask": "a mask counts one position a token, and a place has two; use --positions implicit",
        }
    ),
)
def sincos_2d(
    spec: Spec,
    *,
    dim: Annotated[int, multiple_of(4)] = 768,
    base: Annotated[float, above(1)] = 10000.0,
    order: Literal["row_first", "column_first"] = "column_first",
    layout: Literal["halves", "interleaved", "sines_first"] = "halves",
    output: Literal["add", "rows"] = "add",
    spacing: Literal["paper", "half"] = "paper",
    crop: Annotated[int | None, minimum(1)] = None,
    base_size: Annotated[int | None, minimum(1)] = None,
    interpolation_scale: Annotated[float, above(0)] = 1.0,
) -> Encoding:
    """Sines and cosines of row and column, added to the patches of an image.

    Args:
        dim: features, a multiple of four; one half goes by the row, the other by the column.
        base: wavelengths grow geometrically from 2 pi to base * 2 pi.
        order: whose half comes first, "column_first" as in MAE and SD3, "row_first" as in timm and RT-DETR.
        layout: of each half "halves", all its sines, then all its cosines, or "interleaved" sin, cos, sin, cos, ...; or
            of both "sines_first": the sines of both, then the cosines of both.
        output: "add" x + PE, "rows" PE alone, (1, height, width, dim).
        spacing: exponents of the base are i / n of n frequencies as in the "paper", or i / (n - 1), as in ViT ("half").
        crop: the size of a square grid whose middle x is (SD3's pos_embed_max_size); a larger x is refused.
        base_size: how long an axis is, whatever its size: coordinates are place * base_size / size, of the crop if
            there is one, as in diffusers.
        interpolation_scale: what divides all coordinates.
    """
    if spacing == "half":
        multiple_of(4, 8).check(dim=dim)
    where = AxisCoordinates(crop, base_size, interpolation_scale)
    inv_freq = frequencies(dim // 2, base, spacing)
    source = _source(spec, inv_freq, where, interleaved=layout == "interleaved")
    column_first, add = order == "column_first", output == "add"
    grid_layout = grid.GridLayout(("height", "width"), (1, 0) if column_first else (0, 1), layout, add)
    parameters = Sincos2dParameters(dim, base, order, layout, output, spacing, crop, base_size, interpolation_scale)
    formula = partial(reference, parameters=parameters)
    return grid.encode([source, source], [dim // 2] * 2, spec, grid_layout, formula=formula, step=where.step)


def frequencies(features: int, base: float, spacing: str) -> Floats:
    """Return radians per unit of a coordinate, for each pair of features: (pairs,)."""
    pairs = features // 2
    return np.asarray(float(base) ** (-np.arange(pairs) / (pairs - (spacing == "half"))))


def _source(spec: Spec, inv_freq: Floats, where: AxisCoordinates, *, interleaved: bool) -> AxisRows:
    if where.relative:
        whole = AxisFraction(float(where.base or 1) / where.scale, shift=-1.0)
        return fraction_rows(whole, inv_freq, spec, interleaved=interleaved)
    of_spec = spec if where.crop is None else replace(spec, max_len=where.crop)
    check_table(of_spec, 2 * len(inv_freq))
    rows = sincos(of_spec, inv_freq * where.step, interleaved=interleaved)
    return rows if where.crop is None else CenterCrop(rows, where.crop, step=where.step)
