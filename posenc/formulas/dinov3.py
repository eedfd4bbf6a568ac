"""Rotary position embedding of DINOv3 (arXiv:2508.10104): patches are rotated by where they lie in their image."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, call_of, fits
from posenc.formulas.parts import rotation
from posenc.formulas.parts.decimals import positive_guesses
from posenc.formulas.parts.turning import axes_of_pairs, bases_of, turn_along
from posenc.ports import Array


def reference(
    call: Call,
    *,
    head_dim: int,
    rope_theta: float | None,
    periods: tuple[float | None, float | None],
    pairs: rotation.Pairs,
) -> tuple[Array, ...]:
    """Return the outputs in float64: coordinates in -1..1, over periods."""
    quarter = head_dim // 4
    low, high = periods
    if low is None or high is None:
        period = np.power(100.0 if rope_theta is None else rope_theta, 4 * np.arange(quarter) / head_dim)
    else:
        # The last pair has the longest period; a single pair has the shortest.
        period = high * (high / low) ** (np.linspace(0, 1, quarter) - 1)
    angles = []
    for axis, place in enumerate(call.positions):
        coordinate = 2 * (place + 0.5) / place.shape[1 + axis] - 1  # (1, height, width)
        angles.append(2 * np.pi * coordinate[..., None] / period)
    # (1, height, width, pairs): first those of the row
    return rotation.rotary(call, np.concatenate(angles, -1), 1.0, pairs)


@fits("rotation", family="rotary")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess a base, or the shortest and the longest period, from how far the first place is turned, and each next."""
    quarter = seen.width // 2
    if len(seen.places) != 2 or seen.width % 2 or axes_of_pairs(seen) != [0] * quarter + [1] * quarter:
        return
    height = seen.places[0]
    # the coordinate rises by 2 / height a row: 2 pi of it over the period
    circles = turn_along(seen.numbers, 0)[:quarter] * height / (4 * np.pi)
    places = np.arange(quarter) / quarter
    guesses: list[tuple[float | None, tuple[float | None, float | None]]]
    guesses = [(base, (None, None)) for base in bases_of(circles, places)]
    if quarter > 1 and circles.min() > 0:
        shortest, longest = (list(positive_guesses(1 / circles[pair])) for pair in (0, -1))
        guesses += [(None, periods) for periods in product(shortest, longest)]
    for base, (low, high) in guesses:
        pairs = rotation.Pairs(seen.layout, "bhsd")
        call = call_of(seen)
        cos, sin = reference(call, head_dim=4 * quarter, rope_theta=base, periods=(low, high), pairs=pairs)
        named = {"rope_theta": base} if base is not None else {"min_period": low, "max_period": high}
        yield Guess({"head_dim": 4 * quarter, **named, "layout": seen.layout}, (cos + 1j * sin)[0])
