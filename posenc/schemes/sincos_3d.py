"""Fixed sines and cosines of the places of a video: some features by the frame, the others by row and column.

CogVideoX (diffusers' get_3d_sincos_pos_embed) gives a quarter of the features to the frame, V-JEPA a half; V-JEPA has
the row before the column. VideoMAE's table is another: the scheme `sinusoidal`, which counts all places in one line.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from posenc import reasons
from posenc.encoding import Encoding
from posenc.formulas.sincos_3d import Sincos3dParameters, reference
from posenc.ranges import above, minimum
from posenc.scheme import Unsupported, scheme
from posenc.sincos import check_table, inverse_frequencies, sincos
from posenc.sources.grid import encode as grid
from posenc.spec import Spec

FEW = 256
"""The default max_len: three axes have many places."""


def rows_of(parameters: Mapping[str, object]) -> int:
    """Return the default places of an axis."""
    return FEW


@scheme(
    "sincos_3d",
    rows=rows_of,
    paper="arXiv:2408.06072 (CogVideoX); V-JEPA (arXiv:2404.08471) has it, too",
    formula="PE[t, y, x] = (w(t), w(x), w(y)); w(p) = sin(p / s base^(-2 i / width)) for all i, then cos",
    models=("CogVideoX", "V-JEPA"),
    samples=({"dim": 16}, {"dim": 12, "temporal": 4, "order": "row_first", "spatial_interpolation_scale": 1.875}),
    unsupported=Unsupported(
        positions={
            **reasons.GRID,
            "mask": "a mask counts one position a token, and a place has three; use --positions implicit",
        }
    ),
)
def sincos_3d(
    spec: Spec,
    *,
    dim: Annotated[int, minimum(8)] = 1920,
    temporal: int | None = None,
    base: Annotated[float, above(1)] = 10000.0,
    order: Literal["row_first", "column_first"] = "column_first",
    output: Literal["add", "rows"] = "add",
    spatial_interpolation_scale: Annotated[float, above(0)] = 1.0,
    temporal_interpolation_scale: Annotated[float, above(0)] = 1.0,
) -> Encoding:
    """Sines and cosines of frame, row and column, added to the patches of a video.

    Args:
        dim: features: first those of the frame; half of the others by the row, half by the column.
        temporal: features of the frame, an even number [default: a quarter of all].
        base: wavelengths grow geometrically from 2 pi to base * 2 pi.
        order: whose half comes first after the frame's, "column_first" as in CogVideoX, "row_first" as in V-JEPA.
        output: "add" x + PE, "rows" PE alone, (1, frames, height, width, dim).
        spatial_interpolation_scale: divides row and column.
        temporal_interpolation_scale: divides the frame.
    """
    widths = shares(dim, temporal)
    scales = (temporal_interpolation_scale, spatial_interpolation_scale, spatial_interpolation_scale)
    check_table(spec, max(widths))
    inv_freqs = [inverse_frequencies(width, base) / scale for width, scale in zip(widths, scales, strict=True)]
    by_frame, by_place = (sincos(spec, inv_freq) for inv_freq in inv_freqs[:2])
    layout = grid.GridLayout(
        ("frames", "height", "width"), (0, 2, 1) if order == "column_first" else (0, 1, 2), add=output == "add"
    )
    divisors = (temporal_interpolation_scale, spatial_interpolation_scale)
    formula = partial(reference, parameters=Sincos3dParameters(dim, temporal, base, order, output, divisors))
    return grid.encode([by_frame, by_place, by_place], widths, spec, layout, formula=formula, step=1 / min(scales))


def shares(dim: int, temporal: int | None) -> list[int]:
    """Return how many features frame, row and column have; raise ValueError where dim does not divide so."""
    if dim < 4:
        raise ValueError(f"dim must be at least 8, got {dim}")
    first = dim // 4 if temporal is None else temporal
    if first < 2 or first % 2 or dim - first < 4 or (dim - first) % 4:
        raise ValueError(
            f"temporal must be even, and the rest of dim a multiple of 4, for row and column: got {first} of {dim}"
        )
    return [first, (dim - first) // 2, (dim - first) // 2]
