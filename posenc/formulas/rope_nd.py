"""Rotary position embedding on a grid of up to four axes, each with features, and a base, of its own."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of, fits
from posenc.formulas.parts import rotation
from posenc.formulas.parts.turning import LEAST, axes_of_pairs, bases_of, turn_along
from posenc.parameters import Value
from posenc.ports import Array, Floats

LAYOUTS = ("halves", "interleaved", "axis_halves", "axis_tiled")
TELLING = 1e-4
"""Radians a place above which a turn of float32 says where index 0 is."""


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


@fits("rotation", family="rotary")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess which axis turns each pair, how frequencies are shared out, and their bases from turns along each axis."""
    axes = axes_of_pairs(seen)
    tiled = seen.layout == "axis_tiled"
    if seen.layout not in LAYOUTS or len(seen.places) < 2 or axes is None:
        return
    count = len(seen.places)
    each = 1 if tiled else 2
    widths = tuple(each * axes.count(axis) for axis in range(count))
    order = tuple(dict.fromkeys(axes))
    if len(order) < count or any(width % 2 for width in widths):
        return
    turns = np.array([turn_along(seen.numbers, axis)[pair] for pair, axis in enumerate(axes)])
    first = _first_places(seen, axes, turns)
    runs = [axis for axis in order for _ in range(widths[axis] // each)]
    for alternating in (False,) if tiled else (False, True):
        if (axes == runs) == alternating and count > 1:
            continue
        for frequencies in ("own", "alternate", "shared", "rising"):
            if frequencies == "alternate" and len(set(widths)) > 1:
                continue
            if frequencies == "rising" and turns.min() <= LEAST:
                continue
            axial = Axial(widths, (1.0,) * count, frequencies, alternating, order, first, (1.0,) * count, (), tiled)
            for thetas in _thetas(axial, axes, turns):
                guess = replace(axial, thetas=thetas)
                pairs = rotation.Pairs("interleaved" if tiled else seen.layout, "bhsd", full=tiled, apart=tiled)
                cos, sin = reference(call_of(seen), axial=guess, pairs=pairs)
                named: dict[str, Value] = {"head_dim": seen.head_dim or each * len(axes), "axes_dim": widths}
                named |= {"rope_theta": thetas if len(set(thetas)) > 1 else thetas[:1], "layout": seen.layout}
                named |= {} if frequencies == "own" else {"frequencies": frequencies}
                named |= {"order": "by_turns"} if alternating else {}
                named |= {} if order == tuple(range(count)) else {"axis_order": order}
                named |= {"first": first if len(set(first)) > 1 else first[:1]} if any(first) else {}
                yield Guess(named, (cos + 1j * sin)[0])


def _first_places(seen: Observation, axes: Sequence[int], turns: Floats) -> tuple[float, ...]:
    """Return the place of index 0 on each axis: how far the slowest pair is turned there, over its turn a place."""
    start = np.angle(seen.numbers.reshape(-1, seen.width)[0])
    first = []
    for axis in range(len(seen.places)):
        pairs = [pair for pair, own in enumerate(axes) if own == axis and abs(turns[pair]) > TELLING]
        slowest = min(pairs, key=lambda pair: abs(turns[pair]), default=None)
        place = 0.0 if slowest is None else float(start[slowest] / turns[slowest])
        first.append(float(round(place, 2)) + 0.0)
    return tuple(first)


def _thetas(axial: Axial, axes: Sequence[int], turns: Floats) -> Iterator[tuple[float, ...]]:
    """Yield bases for the axes: one for all, or each its own, by the exponent of each pair's frequency."""
    logs = replace(axial, thetas=(math.e,) * len(axial.widths))
    number = dict.fromkeys(axial.axis_order, 0)
    exponents = []
    for place, axis in enumerate(axes):
        unit = 2 / math.pi if axial.frequencies == "rising" else 1.0
        pair = number[axis] % (axial.widths[axis] // 2)  # of tiled ones each stands twice
        exponents.append(-math.log(unit * _frequency(logs, pair, axis, place)))
        number[axis] += 1
    rise = -1.0 if axial.frequencies == "rising" else 1.0
    measured = (turns * (2 / math.pi if axial.frequencies == "rising" else 1.0)) ** rise
    where = np.array(axes)
    for base in bases_of(measured, rise * np.array(exponents)):
        yield (base,) * len(axial.widths)
    if axial.frequencies == "own":
        each = [
            list(bases_of(measured[where == axis], np.array(exponents)[where == axis])) or [10000.0]
            for axis in range(len(axial.widths))
        ]
        yield from zip(*([bases[0], *bases] for bases in each), strict=False)
