"""Frequencies and bases of numbers that turn with the place, for formulas that are asked backward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc.formulas.fitting import Observation
from posenc.formulas.parts.decimals import positive_guesses
from posenc.ports import Array, Floats

LEAST = 1e-9
"""Radians a place below which a pair stands still."""


def frequencies_of(circles: Array) -> Floats:
    """Return radians a place of each pair: (places, pairs) of cos + i sin -> (pairs,).

    Neighbours tell a turn without a doubt, up to half of one, but roughly; places farther apart tell it better.
    """
    frequency = np.angle(np.sum(circles[1:] * circles[:-1].conj(), 0))
    lag = 2
    while lag <= len(circles) // 2:
        measured = np.angle(np.sum(circles[lag:] * circles[:-lag].conj(), 0))
        frequency = frequency + np.angle(np.exp(1j * (measured - lag * frequency))) / lag
        lag *= 2
    return np.asarray(frequency, np.float64)


def bases_of(frequency: Floats, exponents: Floats) -> Iterator[float]:
    """Yield the bases of frequencies base^-exponent, the roundest first; the pair of exponent 0 tells nothing."""
    tells = (exponents > 0) & (frequency > LEAST)
    if not tells.any():
        return
    # fast pairs are known best, relatively
    weights = frequency[tells] * exponents[tells]
    base = float(np.exp(np.sum(-np.log(frequency[tells]) / exponents[tells] * weights) / np.sum(weights)))
    yield from positive_guesses(base)


def varying(numbers: Array) -> list[tuple[int, ...]]:
    """Return the axes of places along which each column of (*places, columns) varies."""
    axes = range(numbers.ndim - 1)
    along = [(numbers != numbers.take([0], axis)).reshape(-1, numbers.shape[-1]).any(0) for axis in axes]
    return [tuple(axis for axis in axes if along[axis][column]) for column in range(numbers.shape[-1])]


def axes_of_pairs(seen: Observation) -> list[int] | None:
    """Return the axis of places along which each pair of a rotation turns; None where one turns along several, or none.

    A pair so slow that it stands still in the numbers that were seen turns along the axis of the one before it.
    """
    axes: list[int] = []
    for along in varying(seen.numbers):
        if len(along) > 1 or (not along and not axes):
            return None
        axes.append(along[0] if along else axes[-1])
    return axes


def turn_along(numbers: Array, axis: int) -> Floats:
    """Return radians a place of each pair along an axis, from the line of places through the first."""
    line = np.moveaxis(numbers, axis, 0)
    return frequencies_of(line.reshape(len(line), -1, line.shape[-1])[:, 0])
