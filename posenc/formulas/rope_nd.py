"""Rotary position embedding on a grid of up to four axes, each with features, and a base, of its own."""

import math
from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.formulas.parts import rotation
from posenc.ports import Array


@dataclass(frozen=True)
class Axial:
    """How the pairs of a head are shared out among axes: the parameters of the scheme.

    Args:
        widths: Features that each axis rotates.
        thetas: The base of the frequencies of each axis.
        frequencies: "own", "alternate", "shared" or "rising".
        alternating: Axes take pairs by turns; else one axis after the other.
        axis_order: Which axis comes first, second, ...
        first: The place of index 0 on each axis.
        scale: The distance between the places of two neighbours on each axis.
        centered: Axes whose places count from their center, by number.
        tiled: The frequencies of an axis stand twice, one a feature; neighbours are pairs, and turn apart.
    """

    widths: tuple[int, ...]
    thetas: tuple[float, ...]
    frequencies: str = "own"
    alternating: bool = False
    axis_order: tuple[int, ...] = ()
    first: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    centered: tuple[int, ...] = ()
    tiled: bool = False


def reference(call: Call, *, axial: Axial, pairs: rotation.Pairs) -> tuple[Array, ...]:
    """Return the outputs in float64: the place on each pair's, or feature's, own axis times its frequency."""
    # one position a token has no axis of positions: (batch, seq) -> (1, batch, seq)
    positions = call.positions[None] if len(axial.widths) == 1 else call.positions
    rows = [(k, axis) for axis in axial.axis_order for k in range(axial.widths[axis] // 2)]
    if axial.tiled:
        # a row a feature, and not a pair: the frequencies of an axis, and once more
        halves = [(axis, axial.widths[axis] // 2) for axis in axial.axis_order]
        rows = [(feature % half, axis) for axis, half in halves for feature in range(2 * half)]
    if axial.alternating:
        # a stable sort: axes keep their order among pairs of the same number
        rows = sorted(rows, key=lambda row: row[0])
    places = []
    for axis, index in enumerate(positions):
        centered = axis in axial.centered  # on a grid alone: (1, *sizes)
        ahead = index.shape[1 + axis] - index.shape[1 + axis] // 2 if centered else 0
        places.append(axial.first[axis] + (index - ahead) * axial.scale[axis])
    angles = [places[axis] * _frequency(axial, k, axis, place) for place, (k, axis) in enumerate(rows)]
    return rotation.rotary(call, np.stack(angles, -1), 1.0, pairs)


def _frequency(axial: Axial, k: int, axis: int, place: int) -> float:
    """Return the frequency of pair `k` of an axis, which has a place among all pairs of the head."""
    if axial.frequencies == "rising":
        last = max(axial.widths[axis] // 2 - 1, 1)
        rising: float = axial.thetas[axis] ** (k / last)
        return math.pi / 2 * rising
    if axial.frequencies == "own":
        number, features = k, axial.widths[axis]
    else:
        number = place if axial.frequencies == "shared" else k * len(axial.widths) + axis
        features = sum(axial.widths)
    return float(np.float64(axial.thetas[axis]) ** (-2.0 * number / features))
