"""How the pairs of a head are shared out among the axes of a grid, and the rotary angles of them."""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from posenc.formulas.rope_nd import Axial
from posenc.joins.rotated import RotaryAngles
from posenc.ports import Floats, Integers
from posenc.sincos import SinCosMethod, inverse_frequencies, sincos
from posenc.sources.rotary.angles import AxialAngles, StaticAngles
from posenc.sources.rotary.centered import CenteredAxialAngles
from posenc.spec import Spec

MOST = 4
"""Axes that a grid may have."""


def checked(axial: Axial) -> Axial:
    """Return it with a number for each axis; raise ValueError, in one line, where the parameters do not fit."""
    axes, text, frequencies = len(axial.widths), _listed(axial.widths), axial.frequencies
    if not 1 <= axes <= MOST:
        raise ValueError(f"axes_dim must be the features of one to {MOST} axes, got {axes}: {text}")
    if any(features < 2 or features % 2 for features in axial.widths):
        raise ValueError(f"axes_dim must be even numbers of at least 2, a pair for each frequency, got {text}")
    thetas = _for_each("rope_theta", axial.thetas, axes)
    first, scale = _for_each("first", axial.first, axes), _for_each("scale", axial.scale, axes)
    if frequencies in ("alternate", "shared") and len(set(axial.thetas)) > 1:
        raise ValueError(f"rope_theta must be one number where frequencies={frequencies}: axes share them")
    if frequencies == "alternate" and len(set(axial.widths)) > 1:
        raise ValueError(f"axes_dim must be equal where frequencies=alternate: axes take them by turns, got {text}")
    if sorted(axial.axis_order) != list(range(axes)):
        raise ValueError(f"axis_order must be {_listed(range(axes))} in some order, got {_listed(axial.axis_order)}")
    if not all(map(math.isfinite, first)):
        raise ValueError(f"first must be finite numbers, got {_listed(axial.first)}")
    _check_centered(axial.centered, first)
    if axial.tiled:
        _check_tiled(axial)
    return replace(axial, thetas=thetas, first=first, scale=scale)


def _check_centered(centered: tuple[int, ...], first: tuple[float, ...]) -> None:
    """Raise ValueError for the number of no axis, one that stands twice, and a center that is not at place 0."""
    axes = range(len(first))
    if not set(centered) <= set(axes) or len(set(centered)) < len(centered):
        raise ValueError(f"centered must be some of the axes {_listed(axes)}, each once, got {_listed(centered)}")
    if any(first[axis] for axis in centered):
        raise ValueError(f"first must be 0 on a centered axis, whose center is at 0, got {_listed(first)}")


def _check_tiled(axial: Axial) -> None:
    """Raise ValueError where the frequencies of an axis cannot stand twice, one run after the other."""
    if axial.alternating:
        raise ValueError("layout=axis_tiled has a run of features for each axis: leave order=by_turns out")
    if axial.frequencies not in ("own", "rising"):
        raise ValueError(
            f"layout=axis_tiled takes frequencies=own or rising, those of each axis, got {axial.frequencies}"
        )


def _for_each(name: str, numbers: tuple[float, ...], axes: int) -> tuple[float, ...]:
    """Return a number for each axis, where there is one for all or one for each."""
    if len(numbers) not in (1, axes):
        raise ValueError(f"{name} must be one number, or one for each of {axes} axes, got {len(numbers)}")
    return numbers * axes if len(numbers) == 1 else numbers


def _listed(numbers: Iterable[float]) -> str:
    return ",".join(map(str, numbers))


def axial_angles(spec: Spec, axial: Axial, *, signed: bool = False) -> RotaryAngles:
    """Return the angles of each axis, by a sincos method of its own; then all pairs, or features, in their order.

    Args:
        signed: Where an axis has a column a feature, the sines of the first of each two come negated.
    """
    axis_of_pair = axes_of_pairs(axial)
    inv_freqs = _inv_freqs(axial, axis_of_pair)
    if axial.tiled:
        # a run of an axis: f0 f1 f2 f0 f1 f2, of which neighbours are pairs
        inv_freqs = [np.tile(inv_freq, 2) for inv_freq in inv_freqs]
        axis_of_pair = np.repeat(axis_of_pair, 2)
    if signed:
        # the sine of a negated frequency is negated, once and here
        inv_freqs = [inv_freq * np.resize([-1.0, 1.0], len(inv_freq)) for inv_freq in inv_freqs]
    # Axes with the same angles share their tables: a graph holds them once.
    made: dict[object, SinCosMethod] = {}
    methods: list[SinCosMethod] = []
    for axis, inv_freq in enumerate(inv_freqs):
        key = (inv_freq.tobytes(), axial.first[axis], axial.scale[axis], axis in axial.centered)
        if key not in made:
            made[key] = _method(spec, axial, axis, inv_freq)
        methods.append(made[key])
    ranks = np.argsort(axis_of_pair, kind="stable")
    order = None if np.all(ranks == np.arange(len(ranks))) else ranks
    if axial.centered:
        return CenteredAxialAngles(methods, order, [axis in axial.centered for axis in range(len(methods))])
    return StaticAngles(methods[0]) if len(methods) == 1 else AxialAngles(methods, order)


def _method(spec: Spec, axial: Axial, axis: int, inv_freq: Floats) -> SinCosMethod:
    """Return the cosines and sines of an axis by index, or, where it counts from its center, by distance."""
    if axis in axial.centered:
        spec = replace(spec, max_len=spec.max_len + 1)  # a single place is at a distance of 1
    # A place is first + index x scale: the graph multiplies indices by scaled frequencies, and tables hold the rest.
    phase = inv_freq * axial.first[axis] if axial.first[axis] else None
    return sincos(spec, inv_freq * axial.scale[axis], phase=phase)


def _inv_freqs(axial: Axial, axis_of_pair: Integers) -> list[Floats]:
    """Return the frequencies of each axis, in the order of its pairs: (pairs of the axis,) each."""
    axes = len(axial.widths)
    if axial.frequencies == "own":
        return [inverse_frequencies(*numbers) for numbers in zip(axial.widths, axial.thetas, strict=True)]
    if axial.frequencies == "rising":
        steps = [np.arange(features // 2) / max(features // 2 - 1, 1) for features in axial.widths]
        return [np.pi / 2 * np.power(theta, step) for theta, step in zip(axial.thetas, steps, strict=True)]
    whole = inverse_frequencies(sum(axial.widths), axial.thetas[0])
    if axial.frequencies == "alternate":
        return [whole[axis::axes] for axis in range(axes)]
    return [whole[axis_of_pair == axis] for axis in range(axes)]


def axes_of_pairs(axial: Axial) -> Integers:
    """Return which axis rotates each pair: (pairs,) of 0 to axes - 1.

    axis by axis     0 0 0 1 1 1 2 2 2          by turns     0 1 2 0 1 2 0 1 2, as far as each goes
    """
    ranked = [(k, rank, axis) for rank, axis in enumerate(axial.axis_order) for k in range(axial.widths[axis] // 2)]
    if axial.alternating:
        ranked.sort()
    return np.array([axis for _, _, axis in ranked], np.int64)


def square(theta: float, head_dim: int) -> Axial:
    """Return that rows and columns share a head alike, at the same frequencies (Qwen2-VL's vision tower)."""
    return checked(Axial((head_dim // 2,) * 2, (theta,), axis_order=(0, 1)))
