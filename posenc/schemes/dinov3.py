"""Rotary position embedding of DINOv3 (arXiv:2508.10104): patches are rotated by where they lie in their image.

    y = 2 (row + 0.5) / height - 1, x alike: from -1 to 1, whatever the size
    angle = 2 pi y / t_j, then 2 pi x / t_j; t_j = theta^(4 j / d), or by equal factors from min_period to max_period

Tokens before the patches (class, registers) are not rotated there: a model rotates what it splits off behind them. With
`prefix`, cosines of 1 and sines of 0 stand before those of the patches, so that all tokens are rotated at once.
"""

import math
from functools import partial
from typing import Annotated, Literal

import numpy as np

from posenc import reasons
from posenc.encoding import Encoding
from posenc.formulas.dinov3 import reference
from posenc.formulas.parts import rotation
from posenc.joins.apply_rotary import Heads
from posenc.memory import check_room
from posenc.ports import Floats
from posenc.ranges import above, minimum, multiple_of
from posenc.scheme import Unsupported, scheme
from posenc.sources.rotary import encode as rotary
from posenc.sources.rotary.fractions import centered_angles
from posenc.spec import Spec, UnsupportedSpec

THETA = 100.0
FEW = 256
"""The default max_len: tables grow with the square of it."""
SHORTEST = 1e-6
"""The shortest period: a float64 holds an angle of it to nine digits."""


@scheme(
    "dinov3",
    rows=lambda _: FEW,
    paper="arXiv:2508.10104",
    formula="as rope, pair j < d/4 at a = 2 pi (2 (row + 0.5) / height - 1) theta^(-4j/d), pair d/4 + j of the column",
    models=("DINOv3",),
    samples=(
        {"head_dim": 16},
        {"head_dim": 16, "layout": "interleaved", "min_period": 0.5, "max_period": 90.0},
        {"head_dim": 16, "output": "cos_sin", "width": "full"},
        {"head_dim": 16, "output": "cos_sin", "prefix": 5},
    ),
    unsupported=Unsupported(
        positions={**reasons.GRID, "mask": "places are fractions of the whole grid; use --positions implicit"}
    ),
)
def dinov3(
    spec: Spec,
    *,
    head_dim: Annotated[int, multiple_of(4)] = 64,
    rope_theta: Annotated[float | None, above(1)] = None,
    min_period: float | None = None,
    max_period: float | None = None,
    layout: Literal["halves", "interleaved"] = "halves",
    tensor_layout: Literal["bhsd", "bshd"] = "bhsd",
    output: Literal["rotate", "cos_sin"] = "rotate",
    width: Literal["half", "full"] = "half",
    prefix: Annotated[int, minimum(0)] = 0,
) -> Encoding:
    """Queries and keys of image patches rotated by row and column as fractions of the grid, whatever its size.

    Args:
        head_dim: features of a head, a multiple of four; half of them are rotated by the row, half by the column.
        rope_theta: the base of the frequencies, the same for rows and columns [default: 100, where no periods are
            given].
        min_period: the shortest period, in the unit of coordinates, instead of a base; it goes with max_period.
        max_period: the longest period.
        layout: which features are a pair: "halves" i and i + head_dim / 2, "interleaved" 2 i and 2 i + 1.
        tensor_layout: "bhsd" (batch, head, height, width, dim) or "bshd" (batch, height, width, head, dim).
        output: "rotate" q and k, or "cos_sin" the cosines and sines of a grid as large as x (batch, height, width,
            hidden): (1, height, width, ...).
        width: of cos_sin: "half" a column a pair, as fused ops take; "full" a column a feature, as transformers
            returns.
        prefix: of cos_sin: class and register tokens before the patches, which are not rotated: cosines of 1 and sines
            of 0 for them, then those of the patches, line by line: (1, prefix + height x width, ...).
    """
    heads = Heads(head_dim, head_dim, layout, tensor_layout)
    check_room("a call", (1, head_dim), spec.angle_dtype)
    _check_periods(rope_theta, min_period, max_period)
    _check_prefix(prefix, output)
    formula = partial(
        reference,
        head_dim=head_dim,
        rope_theta=rope_theta,
        periods=(min_period, max_period),
        pairs=rotation.Pairs(layout, tensor_layout, width == "full", prefix=prefix),
    )
    slopes = 2 * math.pi * _frequencies(head_dim // 4, rope_theta, min_period, max_period)
    output_of = rotary.RotaryOutput(output, width == "full", on_grid=True, prefix=prefix)
    return rotary.encode(centered_angles(slopes, spec), spec, heads, output_of, formula=formula)


def _check_periods(rope_theta: float | None, min_period: float | None, max_period: float | None) -> None:
    if min_period is None and max_period is None:
        return
    if min_period is None or max_period is None or rope_theta is not None:
        got = f"rope_theta={rope_theta}, min_period={min_period}, max_period={max_period}"
        raise UnsupportedSpec(f"give either rope_theta, or both min_period and max_period, got {got}")
    if not SHORTEST <= min_period <= max_period < math.inf:
        raise ValueError(
            f"min_period must be at least {SHORTEST}, and max_period finite and at least that: "
            f"got {min_period} and {max_period}"
        )


def _check_prefix(prefix: int, output: str) -> None:
    if prefix and output != "cos_sin":
        # tokens alone do not say how high and how wide their grid is
        raise UnsupportedSpec(f"prefix={prefix} takes output=cos_sin: q and k are grids of patches, without the others")


def _frequencies(quarter: int, rope_theta: float | None, min_period: float | None, max_period: float | None) -> Floats:
    """Return circles of a coordinate of 1: (quarter,)."""
    if min_period is None or max_period is None:
        return np.asarray(1 / (rope_theta or THETA) ** (np.arange(quarter) / quarter))
    return np.asarray(1 / np.geomspace(min_period, max_period, quarter))
