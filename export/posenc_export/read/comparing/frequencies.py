"""Rotary parameters as the frequencies that they stand for: two names may describe the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posenc.rope_types import ROPE_TYPES, Rope
from posenc_export.read.comparing.parameters import TELLS, USUAL, ParameterDifference, alike, differences
from posenc_export.read.inspection import FoundEncoding

USUALLY = {"direction": "forward", "tables": "cosines and sines"}
"""What files and configs leave out, where it is usual."""
LISTS = ("short_factor", "long_factor")
"""The divisors of longrope's frequencies, up to the length at which it switches and beyond."""
FAR = 2**30
"""A length beyond every switch of frequencies."""


@dataclass(frozen=True)
class RotaryParameters:
    """Rotary parameters, completed: those that are left out have their usual values.

    Args:
        settings: by name, as the file or the config has them.
        rotary_dim: how many features of a head are rotated; None where not even the width of a head is known.
        layout: which features are a pair.
        angles: the frequencies and the attention factor, at short and at long calls where a type switches; nothing
            where they follow from no formula.
        rows: how many positions a table has; None where they are computed, or not known.
    """

    settings: Mapping[str, object]
    rotary_dim: int | None
    layout: str | None
    angles: tuple[tuple[NDArray[np.float64], float], ...]
    rows: int | None = None

    @property
    def context(self) -> int | None:
        """The length beyond which the frequencies are others; None where they are the same for every call."""
        name = str(self.settings.get("rope_type", "default"))
        length = self.settings.get(ROPE_TYPES[name].by_length) if name in ROPE_TYPES else None
        return length if isinstance(length, int) else None


def rotation_of(settings: Mapping[str, object], is_whole: bool = False) -> RotaryParameters:
    """Return rotary parameters, completed.

    Args:
        settings: the parameters.
        is_whole: whether a layout that is left out is halves, as in a reading of a config.
    """
    width = settings.get("rotary_dim") or settings.get("head_dim")
    dim = width if isinstance(width, int) else None
    layout = settings.get("layout", "halves" if is_whole else None)
    return RotaryParameters(settings, dim, None if layout is None else str(layout), tuple(_angles(settings, dim)))


def rotation_in(encoding: FoundEncoding) -> RotaryParameters:
    """Return the rotation of a file's encoding: the name of its form is its rope type."""
    named = {} if encoding.name not in ROPE_TYPES else {"rope_type": encoding.name}
    return replace(rotation_of({**named, **encoding.parameters}), rows=encoding.rows)


def rotary_differences(got: RotaryParameters, expected: RotaryParameters, dtype: str) -> Iterator[ParameterDifference]:
    """Yield what differs between two rotations; parameters that make the same angles do not."""
    within = TELLS.get(dtype, USUAL)
    for name in ("rotary_dim", "layout"):
        pair = getattr(got, name), getattr(expected, name)
        if None not in pair and pair[0] != pair[1]:
            yield ParameterDifference(name, *pair)
    for name, usual in USUALLY.items():
        pair = got.settings.get(name, usual), expected.settings.get(name, usual)
        if pair[0] != pair[1]:
            yield ParameterDifference(name, *pair)
    yield from _of_place(got, expected)
    if got.rotary_dim != expected.rotary_dim or not _alike(got, expected, within):
        yield from _of_angles(got, expected, dtype, within)
    factors = [{factor for _, factor in side.angles} for side in (got, expected)]
    if all(factors) and not any(alike(a, b, within) for a in factors[0] for b in factors[1]):
        yield ParameterDifference("attention_factor", min(factors[0]), min(factors[1]))


def _alike(got: RotaryParameters, expected: RotaryParameters, within: float) -> bool:
    """Return whether both sides make the same frequencies: by numbers where they can be computed."""
    if not got.angles or not expected.angles:
        return False
    alike_at = [[_near(a, b, within) for b, _ in expected.angles] for a, _ in got.angles]
    # a table that ends before the switch has one side of it
    if got.rows is not None and expected.context is not None and got.rows <= expected.context:
        return any(map(any, alike_at))
    return all(map(any, alike_at)) and all(map(any, zip(*alike_at, strict=True)))


def _near(got: NDArray[np.float64], expected: NDArray[np.float64], within: float) -> bool:
    return got.shape == expected.shape and bool(np.allclose(got, expected, rtol=within, atol=0.0))


def _of_place(got: RotaryParameters, expected: RotaryParameters) -> Iterator[ParameterDifference]:
    """Yield where the features that rotate begin, if it differs: heads of one width are compared."""
    widths = {side.settings.get("head_dim") for side in (got, expected)}
    first, wanted = (side.settings.get("first_feature", 0) for side in (got, expected))
    if len(widths) == 1 and first != wanted:
        yield ParameterDifference("first_feature", first, wanted)


def _frequencies(got: RotaryParameters, expected: RotaryParameters, within: float) -> tuple[str, object, object]:
    """Return the frequencies of a side that is lacking, with those that are there instead."""
    sides = dict(enumerate(angles for angles, _ in expected.angles))
    lacking = [side for side, angles in sides.items() if not any(_near(own, angles, within) for own, _ in got.angles)]
    side = next(iter(lacking), 0)
    own, wanted = got.angles[-1 if side else 0][0], sides[side]
    if _has_lists(expected) and own.shape == wanted.shape:
        where = f"{'beyond' if side else 'up to'} {expected.context}"
        listed = np.asarray(expected.settings[LISTS[side]], np.float64)
        # what the file divides the same frequencies by
        return f"{LISTS[side]}, of calls {where},", tuple((listed * wanted / own).tolist()), tuple(listed.tolist())
    name = f"frequencies of calls beyond {expected.context}" if side else "frequencies"
    return name, tuple(own), tuple(wanted)


def _has_lists(expected: RotaryParameters) -> bool:
    """Return whether a rotation has the two lists of longrope."""
    return len(expected.angles) == len(LISTS) and all(
        isinstance(expected.settings.get(name), Sequence) for name in LISTS
    )


def lists_of(got: RotaryParameters, expected: RotaryParameters, dtype: str) -> tuple[str, ...]:
    """Return the names of longrope's lists whose frequencies both sides have; none for another rope type."""
    within = TELLS.get(dtype, USUAL)
    pairs = zip(LISTS, expected.angles, strict=False) if _has_lists(expected) else ()
    return tuple(
        name
        for name, (wanted, _) in pairs
        if alike(got.settings.get(name), expected.settings[name], within)
        or any(_near(own, wanted, within) for own, _ in got.angles)
    )


def _of_angles(
    got: RotaryParameters, expected: RotaryParameters, dtype: str, within: float
) -> Iterator[ParameterDifference]:
    """Yield the parameters of angles that differ."""
    ours, theirs = dict(got.settings), dict(expected.settings)
    if "rope_type" not in theirs and "rope_theta" in theirs:
        theirs["rope_type"] = "default"
    if ours.get("rope_type") == theirs.get("rope_type"):
        ours, theirs = _completed(ours), _completed(theirs)
    others = {"rotary_dim", "head_dim", "layout", "attention_factor"}
    differing = [d for d in differences(ours, theirs, dtype) if d.name not in others]
    # where several differ, one that changes no frequency is not told by a file's numbers
    yield from [d for d in differing if _shows(got, d, within)] or differing
    # frequencies that switch by the length of a call, and follow a rule on neither side
    if not got.angles and expected.angles and not differing and {"short", "long"} <= got.settings.keys():
        yield ParameterDifference("frequencies", "of no known rule", tuple(expected.angles[0][0]))
        return
    # what the rope type of one side alone takes is said by the names of the types
    if not differing and got.angles and expected.angles and got.rotary_dim == expected.rotary_dim:
        yield ParameterDifference(*_frequencies(got, expected, within))


def _shows(got: RotaryParameters, difference: ParameterDifference, within: float) -> bool:
    """Return whether the value that was expected would make other frequencies than a file has."""
    other = rotation_of({**got.settings, difference.name: difference.expected})
    pairs = zip(got.angles, other.angles, strict=False)
    return len(got.angles) != len(other.angles) or not all(_near(a, b, within) for (a, _), (b, _) in pairs)


def _completed(settings: Mapping[str, object]) -> dict[str, object]:
    """Return parameters with the usual values of those that are left out."""
    name = str(settings.get("rope_type", "default"))
    known = ROPE_TYPES[name].parameters if name in ROPE_TYPES else {}
    usual = {key: entry.default for key, entry in known.items() if isinstance(entry.default, (bool, int, float))}
    return {**usual, **settings}


def _angles(settings: Mapping[str, object], dim: int | None) -> Iterator[tuple[NDArray[np.float64], float]]:
    """Yield the frequencies that parameters stand for: at short lengths, and far beyond a switch."""
    inv_freq, theta = settings.get("inv_freq"), settings.get("rope_theta")
    factor = settings.get("attention_factor")
    if isinstance(inv_freq, Sequence) and not isinstance(inv_freq, str):
        yield np.asarray(inv_freq, np.float64), float(factor) if isinstance(factor, (int, float)) else 1.0
        return
    name = str(settings.get("rope_type", "default"))
    divisors = settings.get("divisors")
    if isinstance(divisors, Sequence) and isinstance(theta, (int, float)) and not isinstance(divisors, str):
        # one side of longrope, as the table of a call has it
        inverse = float(theta) ** -(np.arange(len(divisors)) / len(divisors))
        yield inverse / np.asarray(divisors, np.float64), float(factor) if isinstance(factor, (int, float)) else 1.0
        return
    if dim is None or not isinstance(theta, (int, float)) or name not in ROPE_TYPES:
        return
    known = ROPE_TYPES[name].parameters
    scaling = {key: value for key, value in settings.items() if key in known and value is not None}
    try:
        rope = Rope(name, dim, float(theta), scaling)
        lengths = (1, FAR) if rope.by_length else (1,)
        computed = [rope.at(length) for length in lengths]
    except (ValueError, TypeError, KeyError, ZeroDivisionError, OverflowError):
        return  # parameters that the type does not take: they are compared by name
    # a factor that is stated is stronger than that of the type
    for frequencies in computed:
        stated = factor if isinstance(factor, (int, float)) else frequencies.attention_factor
        yield np.asarray(frequencies.inv_freq), float(stated)
