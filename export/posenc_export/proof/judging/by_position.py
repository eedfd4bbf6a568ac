"""The largest errors by position: of an output in one case, and of all cases of a runtime, in bins of positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from posenc.ports import Feeds, Floats, Integers, Port, Positions, carrying
from posenc_export.proof.judging.verdict import Against, Bin, Comparison, Curve

HALVES = 2
"""Bins of positions from a power of two to the next."""
FLAT = 2
"""Axes of positions where a token has a single one: batch and length."""


@dataclass(frozen=True)
class JudgedOutput:
    """An output in one case, judged.

    Args:
        comparison: The worst of it.
        bins: The largest error in each bin of positions; none where nothing differs, or where no positions run.
    """

    comparison: Comparison
    bins: tuple[Bin, ...] = ()


def positions_of_rows(inputs: Iterable[Port], feeds: Feeds, along: str, rows: Integers, first: int) -> Integers:
    """Return the positions of rows of an output.

    Args:
        inputs: The ports of the graph.
        feeds: What went in.
        along: The name of the axis along which the rows are.
        rows: Their indices.
        first: The position of the first row, where positions follow one another.
    """
    for port in carrying(inputs, Positions):
        if len(port.axes) == FLAT and port.axes[-1].name == along and along:
            positions: Integers = feeds[port.name][0].astype(np.int64)  # the first sequence has no padding
            return positions[rows] if rows.max(initial=0) < len(positions) else first + rows
    return first + rows


def bins_of(
    error: Floats, allowed: Floats, axis: int, positions: Integers, is_allowed: bool = False
) -> tuple[Bin, ...]:
    """Return the largest error in each bin of positions, and how far that element may be off.

    An element that is farther off than it may be comes before a larger error that is allowed.

    Args:
        error: The error of each element, NaN where either output is.
        allowed: How far each may be off, of the same shape.
        axis: The axis along which positions run.
        positions: The position of each row along it.
        is_allowed: Whether it is known that no element is farther off than it may be.
    """
    # (..., positions, ...) -> (positions, ...)
    rows = np.moveaxis(error, axis, 0)
    bounds = np.moveaxis(np.broadcast_to(allowed, error.shape), axis, 0)
    every = np.arange(len(positions))
    # for argmax a NaN is the largest
    worst = np.argmax(_rank_of(rows, bounds, is_allowed).reshape(len(rows), -1), 1)
    at = (every, *np.unravel_index(worst, rows.shape[1:]))
    largest = np.where(np.isnan(rows[at]), np.inf, rows[at])  # (positions,)
    limits = bounds[at]
    numbers = np.asarray([*map(_number, positions.tolist())])
    order = np.lexsort(
        (-every, largest, largest > limits, numbers)
    )  # the last of each bin is its worst, of equal ones the first
    ends = np.flatnonzero(np.append(np.diff(numbers[order]) != 0, True))
    return tuple(Bin(int(positions[i]), float(largest[i]), float(limits[i])) for i in order[ends])


def _rank_of(rows: Floats, bounds: Floats, is_allowed: bool) -> Floats:
    """Return numbers that are largest at the worst element of each row: errors, or first those beyond their bounds."""
    if is_allowed:
        return rows
    with np.errstate(over="ignore"):
        return np.where(rows > bounds, rows + np.nanmax(rows), rows)


def curves_of(measured: Iterable[JudgedOutput]) -> tuple[Curve, ...]:
    """Return a curve for each output and what it was compared with: the worst of all cases in each bin."""
    peaks: dict[tuple[str, Against], dict[int, Bin]] = {}
    for output in measured:
        worst = peaks.setdefault((output.comparison.output, output.comparison.against), {})
        _take(worst, output.bins)
    return tuple(
        Curve(output, against, tuple(worst[number] for number in sorted(worst)))
        for (output, against), worst in peaks.items()
        if worst
    )


def _take(worst: dict[int, Bin], bins: Iterable[Bin]) -> None:
    """Put bins among those of earlier cases: the worse of two stays."""
    for candidate in bins:
        number = _number(candidate.position)
        known: Mapping[int, Bin] = worst
        if number not in known or _rank(candidate) > _rank(known[number]):
            worst[number] = candidate


def _rank(peak: Bin) -> tuple[bool, float]:
    return peak.error > peak.allowed, peak.error


def _number(position: int) -> int:
    """Return the bin of a position: 0 for 0 and below, 1 for 1, then two from a power of two to the next."""
    if position <= 0:
        return 0
    power = position.bit_length() - 1
    # p >= 2^(power + 1/2), in integers
    return 1 + HALVES * power + (position * position >= 1 << (2 * power + 1))
