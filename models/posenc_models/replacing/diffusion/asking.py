"""Which axis and which frequency each column of a module has, and in which form they are returned: asked of the module.

The first place beyond 0 on an axis turns the columns of this axis alone, by their frequencies. Those are known to seven
digits then, and in float64 if they are the powers of one base. What is found so is held against the module's own
outputs at other places: `prove`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from posenc.ports import Array, Floats, Integers
from posenc_models.replacing.diffusion.columns import ModuleColumns, Places, ReturnForm, parts_of

SAME = 1e-5
"""Frequencies that differ by less are the same one."""
NEAR = 2e-6
"""How far a frequency may be from the power of a base: float32 has as much of it."""
DIGITS = 5
"""Digits of a base, or of a factor, that somebody chose."""
FACTORS = (1.0, np.pi / 2, np.pi, 2 * np.pi)
"""What the first frequency may be beside a number of a few digits."""
NO_POWERS = "its frequencies, {}, are no powers of one base; replace it by hand"


def form_of(returned: object, places: Places) -> ReturnForm:
    """Return the form of what a module returned; raise ValueError where it has another number of places."""
    name, cos, _ = parts_of(returned)
    dtype = (returned if isinstance(returned, Tensor) else returned[0]).dtype  # type: ignore[index]
    actual, tokens = tuple(cos.shape[:-1]), tuple(torch.broadcast_shapes(*(place.shape for place in places)))
    for flat, expected in ((False, tokens), (True, (int(np.prod(tokens)),))):
        ones = _ones(actual, expected)
        if ones is not None:
            return ReturnForm(name, dtype, flat, ones)
    raise ValueError(f"it returns {actual} rows for {tokens} places; replace it by hand")


def _ones(actual: Sequence[int], expected: Sequence[int]) -> tuple[int, ...] | None:
    """Return where axes of size 1 stand in a shape beside the expected ones; None where it has others."""
    ones, rest = [], list(expected)
    for at, size in enumerate(actual):
        if rest and size == rest[0]:
            rest.pop(0)
        elif size == 1:
            ones.append(at)
        else:
            return None
    return None if rest else tuple(ones)


def columns_of(returned: object, places: Places, bases: Sequence[float]) -> ModuleColumns:
    """Return the axis and the frequency of each column, from what a module returned at some places.

    Args:
        returned: what the module returned.
        places: where.
        bases: numbers that the base of its frequencies may be, beside those of a few digits.

    Raises ValueError, in one line, for columns of several axes, and for other frequencies than the powers of one base.
    """
    _, cos, sin = parts_of(returned)
    angles = torch.atan2(sin, cos).flatten(0, -2).numpy(force=True)  # (n, columns)
    at = np.stack([place.double().numpy(force=True).ravel() for place in torch.broadcast_tensors(*places)])
    rows = np.stack([_slope(angles, at, axis) for axis in range(len(at))])  # (axes, columns)
    if (rows < 0).any() or (np.count_nonzero(rows, axis=0) > 1).any():
        raise ValueError("a column turns by several axes, or backwards; replace it by hand")
    axis_of, frequency = rows.argmax(0), rows.max(0)
    ladders = _explained([_distinct(frequency[axis_of == axis]) for axis in range(len(at))], bases)
    return ModuleColumns(tuple(ladders), tuple(_order(axis_of, frequency, ladders)))


def _slope(angles: Floats, at: Floats, axis: int) -> Floats:
    """Return the angle from one place to the next on an axis: (columns,)."""
    alone = (np.delete(at, axis, 0) == 0).all(0) & (at[axis] != 0)
    if not alone.any():
        raise ValueError(f"it turns nothing on axis {axis} alone; replace it by hand")
    # the nearest place: a far one may turn by more than half a circle
    nearest = int(np.argmin(np.where(alone, np.abs(at[axis]), np.inf)))
    slope: Floats = angles[nearest] / at[axis, nearest]
    return slope


def _distinct(frequencies: Floats) -> Floats:
    """Return frequencies that differ, the highest first; 0 stays if it is there."""
    ordered = np.sort(frequencies)[::-1]
    return ordered[np.append(True, ordered[1:] < ordered[:-1] * (1 - SAME))] if len(ordered) else ordered


def _explained(measured: Sequence[Floats], bases: Sequence[float]) -> list[Floats]:
    """Return the frequencies of each axis in float64, the powers of a base for each axis, or of one for all axes."""
    # each axis has powers of its own (Flux), or pairs of one head are dealt out among the axes (M-RoPE)
    own = [_ladder(freqs, bases) for freqs in measured]
    exact = [freqs for freqs in own if freqs is not None]
    if len(exact) == len(own):
        return exact
    whole = _ladder(_distinct(np.concatenate(measured)), bases)
    if whole is None:
        first = next(freqs for freqs, powers in zip(measured, own, strict=True) if powers is None)
        raise ValueError(NO_POWERS.format(", ".join(f"{freq:.4g}" for freq in first[:4]) + ", ..."))
    return [whole[np.abs(np.log(whole[:, None] / freqs)).argmin(0)] for freqs in measured]


def _ladder(measured: Floats, bases: Sequence[float]) -> Floats | None:
    """Return factor * base^(-k / n), k = 0..n-1, that n frequencies are; None where they are no such powers."""
    if not len(measured) or measured[-1] <= 0:
        return None
    factor, n = _chosen(float(measured[0]), FACTORS), len(measured)
    base = _chosen(float((measured[-1] / measured[0]) ** (-n / (n - 1))), bases) if n > 1 else 1.0
    if factor is None or base is None:
        return None
    powers: Floats = factor * np.float64(base) ** (-np.arange(n) / n)
    return powers if np.abs(powers / measured - 1).max() < NEAR else None


def _chosen(measured: float, known: Sequence[float]) -> float | None:
    """Return the known number, or the one of a few digits, that a measured one is; None where there is none."""
    candidates = [*known, float(f"{measured:.{DIGITS}g}")]
    nearest = min(candidates, key=lambda number: abs(number - measured))
    return nearest if abs(nearest / measured - 1) < 2 * NEAR else None


def _order(axis_of: Integers, frequency: Array, ladders: Sequence[Floats]) -> list[int]:
    """Return the number of each column's pair."""
    starts = np.cumsum([0, *(len(freqs) for freqs in ladders)])
    return [
        int(starts[axis] + np.abs(np.log(ladders[axis] / freq)).argmin())
        for axis, freq in zip(axis_of, frequency, strict=True)
    ]
