"""ALiBi: biases that fall, head by head, by a slope for each step from query to key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from posenc.formulas.fitting import Form, Parameter
from posenc_export.read.recognise.masks import Floats, unblocked
from posenc_export.read.recognise.waves import spacing_of_dtype

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Slopes:
    """The rule that slopes follow: scale * 2^(-bias_max h / n), and every second one of the next power of two.

    Args:
        coarse: they are rounded to bfloat16, as Falcon's.
    """

    bias_max: float
    scale: float
    coarse: bool = False


def slopes_of(heads: int, bias_max: float) -> Floats:
    """Return the slope of each head by the rule of the paper's code."""
    power = 1 << (heads.bit_length() - 1)
    exponents = np.concatenate([np.arange(1, power + 1) / power, np.arange(1, 2 * power, 2) / (2 * power)])
    return np.asarray(np.exp2(-bias_max * exponents[:heads]), np.float64)


def rule_of(slopes: Floats, tolerance: float) -> Slopes | None:
    """Return the rule that slopes follow, the paper's -8 before any other; None where they follow none.

    Args:
        tolerance: of a slope, relative.
    """
    heads = len(slopes)
    power = 1 << (heads.bit_length() - 1)
    # a scale cancels in the ratio of the first two, which are neighbours in the series of the lower power of two
    ratio = slopes[1] / slopes[0] if power > 1 else 2.0**-8
    fitted = -float(np.log2(ratio)) * power
    bias_max = float(round(fitted)) if abs(fitted - round(fitted)) <= 0.02 * power else fitted
    for candidate, off in ((bias_max, tolerance), (bias_max, max(tolerance, 2.0**-7)), (fitted, tolerance)):
        expected = slopes_of(heads, candidate)
        scale = float(np.exp(np.median(np.log(slopes / expected))))
        scale = 1.0 if abs(scale - 1) <= off else scale
        if candidate > 0 and np.abs(slopes / (scale * expected) - 1).max() <= off:
            return Slopes(candidate, scale, off > tolerance)
    return None


def alibi_form(bias: NDArray[np.generic]) -> Form | None:
    """Return ALiBi's form of a bias (.., heads, seq, seq_k), with or without a mask added; None where it is another.

    Heads may come with the batch on a single axis. A bias with a single key, or a single head, tells too little.
    """
    if bias.ndim < 2 or bias.shape[-1] < 3:
        return None
    # (.., heads, seq, seq_k) -> (batch * heads, seq, seq_k)
    numbers = unblocked(bias).reshape(-1, *bias.shape[-2:])
    spacing = spacing_of_dtype(bias.dtype)
    slopes = _slopes(numbers, spacing)
    if slopes is None:
        return None
    # BLOOM has batch * heads on a single axis
    heads = _period(slopes)
    by_distance = _by_distance(numbers, slopes, spacing)
    form = by_distance or _by_key(numbers, slopes, spacing)
    if form is None or heads < 2:
        return None
    rule = rule_of(slopes[:heads], 4 * spacing + 1e-5)
    parameters: dict[str, Parameter] = {"heads": heads, "form": form}
    if rule is None:
        parameters["slopes"] = tuple(slopes[:heads].tolist())
        return Form("alibi", "slopes of no rule", parameters)
    parameters["bias_max"] = rule.bias_max
    if rule.scale != 1.0:
        parameters["scale"] = rule.scale
    if rule.coarse:
        parameters["bfloat16_slopes"] = True
    return Form("alibi", form, parameters, exact_of(rule.scale * slopes_of(heads, rule.bias_max), form))


def exact_of(slopes: Floats, form: str) -> Callable[[Integers], Floats]:
    """Return the function from distances, or from positions of keys, to biases in float64: (n,) -> (heads, n)."""

    def exact(positions: Integers) -> Floats:
        steps = -np.abs(positions) if form == "distance" else positions
        return np.asarray(slopes[:, None] * steps.astype(np.float64), np.float64)

    return exact


def _slopes(numbers: Floats, spacing: float) -> Floats | None:
    """Return the size of a step from key to key, of each head; None where steps differ or do not fall by head."""
    # a mask leaves gaps, which are NaN
    steps = np.abs(np.diff(numbers, axis=-1)).reshape(len(numbers), -1)
    if not np.isfinite(steps).any(1).all():
        return None
    slopes = np.asarray(np.nanmedian(steps, 1), np.float64)
    largest = np.nanmax(np.abs(numbers), (1, 2))
    off = np.nanmax(np.abs(steps - slopes[:, None]), 1)
    if (slopes <= 0).any() or (off > 4 * spacing * largest + 1e-5 * slopes).any():
        return None
    # steps of half precision are rounded with the number they lead to; the whole way tells more
    whole = np.nanmax(numbers, (1, 2)) - np.nanmin(numbers, (1, 2))
    count = np.rint(whole / slopes)
    return np.asarray(np.where(count > 0, whole / np.maximum(count, 1), slopes), np.float64)


def _period(slopes: Floats) -> int:
    """Return how many heads there are, where a batch repeats them on the same axis."""
    for heads in range(1, len(slopes)):
        if len(slopes) % heads == 0 and np.array_equal(np.tile(slopes[:heads], len(slopes) // heads), slopes):
            return heads
    return len(slopes)


def _near(numbers: Floats, expected: Floats, spacing: float) -> bool:
    off = np.abs(numbers - expected)
    allowed = 4 * spacing * np.nanmax(np.abs(numbers), (1, 2)) + 1e-6
    return bool((np.nanmax(off, (1, 2)) <= allowed).all())


def _by_distance(numbers: Floats, slopes: Floats, spacing: float) -> str | None:
    """Return "distance" where the bias is -slope * |key - query|, and "signed" where it is slope * (key - query).

    The last query is at the last key, or the first at 0.
    """
    queries, keys = numbers.shape[-2:]
    # a single query tells no distance from a position of a key
    if queries < 2:
        return None
    for past in dict.fromkeys((keys - queries, 0)):
        steps = -np.abs(np.arange(keys) - np.arange(queries)[:, None] - past)
        if _near(numbers, slopes[:, None, None] * steps, spacing):
            return "distance"
        # keys after the query are for a mask to leave out
        if _near(numbers, slopes[:, None, None] * (np.arange(keys) - np.arange(queries)[:, None] - past), spacing):
            return "signed"
    return None


def _by_key(numbers: Floats, slopes: Floats, spacing: float) -> str | None:
    """Return "key" where the bias is slope * key, "last_key" where it is 0 at the last key."""
    keys = np.arange(numbers.shape[-1])
    for form, steps in (("key", keys), ("last_key", keys - keys[-1])):
        if _near(numbers, slopes[:, None, None] * steps, spacing):
            return form
    return None
