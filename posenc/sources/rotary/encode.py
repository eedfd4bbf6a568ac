"""Encodings that rotate queries and keys, or return the cosines and sines for that."""

import math
from dataclasses import dataclass

import numpy as np

from posenc.call import Formula
from posenc.encoding import Encoding, Probes, Tolerance, eps, no_tables
from posenc.joins.apply_rotary import Heads
from posenc.joins.cos_sin import join_cos_sin
from posenc.joins.rotated import RotaryAngles, join_heads
from posenc.maker import Claims, encoding
from posenc.spec import Spec
from posenc.where import grid, tokens

PARTS = "a header and a cache are for pairs of a whole head, and here each axis has a part of it: give another layout"
"""Why halves of parts have no tables."""
APART = "the two features of a pair turn by angles of their own, and a row here has one a pair"
"""Why pairs that turn apart have no tables."""
PAIR_RADIUS = 7.0
"""How long a pair of features is at most in a recorded call: of two normal numbers, but once in 4e10 pairs."""
GRID = ("images", "frames", "height", "width")
"""Names of the axes of a grid; a grid of fewer axes has the last of them."""


@dataclass(frozen=True)
class RotaryOutput:
    """The output of a rotary encoding.

    Args:
        kind: "rotate" for q and k rotated, "cos_sin" for cosines and sines.
        full: Cosines and sines have a column a feature, as transformers returns them; else a column a pair, as fused
            operators take them.
        on_grid: Cosines and sines, too, are those of a grid as large as what comes in.
        prefix: Tokens before the places of a grid that have cosines of 1 and sines of 0.
    """

    kind: str = "rotate"
    full: bool = False
    on_grid: bool = False
    prefix: int = 0


def encode(
    angles: RotaryAngles,
    spec: Spec,
    heads: Heads,
    output: RotaryOutput,
    *,
    formula: Formula,
    probe_lengths: tuple[int, ...] = (),
) -> Encoding:
    """Return the encoding that rotary angles make with the positions of a spec, with heads and an output.

    Args:
        formula: A call -> the outputs in float64.
        probe_lengths: Lengths of calls to try, beside those that the angles ask for.

    Raises:
        UnsupportedSpec: The combination has no meaning.
    """
    cos_sin = output.kind == "cos_sin"
    # Several positions a token follow from a shape where q and k lie on a grid.
    if angles.axes > 1 and spec.positions == "implicit" and (output.on_grid or not cos_sin):
        where = grid(spec, GRID[-angles.axes :], angles.ends())
    else:
        where = tokens(spec, angles.ends()[0], angles.axes)
    if cos_sin:
        join = join_cos_sin(angles, where, spec, heads, repeat_pairs=output.full, prefix=output.prefix)
    else:
        join = join_heads(angles, where, spec, heads)
    kind = "apart" if heads.apart and not cos_sin else output.kind
    claims = Claims(
        error=lambda case: _error(angles, spec, kind, case.max_position),
        graph_error=lambda case: _graph_error(angles, spec, kind, case.max_position),
        tables=no_tables(APART) if heads.apart else angles.tables if heads.parts == 1 else no_tables(PARTS),
        probes=Probes((*angles.probes.lengths, *probe_lengths), angles.probes.positions),
        half_safe=angles.half_safe,
    )
    return encoding(spec, where, claims, join, formula)


def _error(angles: RotaryAngles, spec: Spec, kind: str, max_position: int) -> Tolerance:
    """Return how far outputs may be from the reference: cos and sin absolutely, rotated heads relative to their length.

    A feature of a rotated pair is off by at most (|a| + |b|) times the error of cos and sin, and two roundings; the
    largest feature of a head is at least half of |a| + |b|. Where the two turn "apart", see `_apart`.
    """
    angle = angles.tolerance(max_position)
    factor = angles.attention_factor
    # The attention factor scales cos, sin and what they are off by; the grain of a number, to its power of two.
    binade = float(2.0 ** np.ceil(np.log2(factor)))
    if kind == "cos_sin":
        return Tolerance(atol=angle.atol * binade)
    if kind == "apart":
        return _apart(angle.atol * binade, factor * 1.25 * eps(spec.angle_dtype))
    rotated = 2 * angle.atol * binade / factor + 1.25 * eps(spec.angle_dtype)
    return Tolerance(vector=rotated + angle.vector)


def _apart(cos_sin: float, rounding: float) -> Tolerance:
    """Return how far heads may be off whose pairs turn apart, by the error of cos and sin and that of the rotation.

    Of (a cos x - b sin x, b cos y + a sin y) with x - y a right angle, both are 0 for some pair (a, b), so that no
    share of what comes out bounds an error: what goes in does. With r the length of (a, b), by Cauchy and Schwarz:

        cos and sin off by d      |a| d + |b| d <= sqrt(2) r d
        two products rounded      (|a cos x| + |b sin x|) eps / 2 <= r eps / 2
        their sum rounded         |a cos x - b sin x| eps / 2 <= r eps / 2

    The sum is r (sqrt(2) d + eps), and r is at most PAIR_RADIUS; a quarter of eps more is for products of small terms.
    """
    return Tolerance(atol=PAIR_RADIUS * (math.sqrt(2) * cos_sin + rounding))


def _graph_error(angles: RotaryAngles, spec: Spec, kind: str, max_position: int) -> Tolerance:
    """Return how far a graph may be from the eager module: the same bits, or the last digits of Sin and Cos."""
    angle = angles.eager_tolerance(max_position)
    if angle.bits:
        return angle
    if kind == "cos_sin":
        return Tolerance(atol=angle.atol)
    if kind == "apart":
        # both sides round
        return _apart(angle.atol, angles.attention_factor * 2.5 * eps(spec.angle_dtype))
    return Tolerance(vector=2 * angle.atol + 2.5 * eps(spec.angle_dtype) + angle.vector)
