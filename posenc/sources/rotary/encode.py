"""Encodings that rotate queries and keys, or return the cosines and sines for that."""

from dataclasses import dataclass

import numpy as np

from posenc.call import Formula
from posenc.encoding import Encoding, Probes, Tolerance, eps
from posenc.joins.apply_rotary import Heads
from posenc.joins.cos_sin import join_cos_sin
from posenc.joins.rotated import RotaryAngles, join_heads
from posenc.maker import Claims, encoding
from posenc.spec import Spec
from posenc.where import grid, tokens


@dataclass(frozen=True)
class Output:
    """The output of a rotary encoding.

    Args:
        kind: "rotate" for q and k rotated, "cos_sin" for cosines and sines.
        full: Cosines and sines have a column a feature, as transformers returns them; else a column a pair, as fused
            operators take them.
    """

    kind: str = "rotate"
    full: bool = False


def encode(
    angles: RotaryAngles,
    spec: Spec,
    heads: Heads,
    output: Output,
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
    if angles.axes > 1 and spec.positions == "implicit" and not cos_sin:
        where = grid(spec, ("height", "width"), (angles.end, angles.end))
    else:
        where = tokens(spec, angles.end, angles.axes)
    if cos_sin:
        join = join_cos_sin(angles, where, spec, heads, repeat_pairs=output.full)
    else:
        join = join_heads(angles, where, spec, heads)
    claims = Claims(
        error=lambda case: _error(angles, spec, output, case.max_position),
        graph_error=lambda case: _graph_error(angles, spec, output, case.max_position),
        tables=angles.tables,
        probes=Probes((*angles.probes.lengths, *probe_lengths), angles.probes.positions),
        half_safe=angles.half_safe,
    )
    return encoding(spec, where, claims, join, formula)


def _error(angles: RotaryAngles, spec: Spec, output: Output, max_position: int) -> Tolerance:
    """Return how far outputs may be from the reference: cos and sin absolutely, rotated heads relative to their length.

    A feature of a rotated pair is off by at most (|a| + |b|) times the error of cos and sin, and two roundings; the
    largest feature of a head is at least half of |a| + |b|.
    """
    angle = angles.tolerance(max_position)
    factor = angles.attention_factor
    # The attention factor scales cos, sin and what they are off by; the grain of a number, to its power of two.
    binade = float(2.0 ** np.ceil(np.log2(factor)))
    if output.kind == "cos_sin":
        return Tolerance(atol=angle.atol * binade)
    return Tolerance(vector=2 * angle.atol * binade / factor + 1.25 * eps(spec.angle_dtype) + angle.vector)


def _graph_error(angles: RotaryAngles, spec: Spec, output: Output, max_position: int) -> Tolerance:
    """Return how far a graph may be from the eager module: the same bits, or the last digits of Sin and Cos."""
    angle = angles.eager_tolerance(max_position)
    if angle.bits:
        return angle
    if output.kind == "cos_sin":
        return Tolerance(atol=angle.atol)
    return Tolerance(vector=2 * angle.atol + 2.5 * eps(spec.angle_dtype) + angle.vector)
