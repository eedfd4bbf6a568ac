"""Attention with linear biases (ALiBi, arXiv:2108.12409): a score loses with the distance from its query to its key."""

from collections.abc import Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.parameters import Value
from posenc.ports import Array, Floats, Integers


def reference(call: Call, *, heads: int, form: str, bias_max: float, scale: float, bfloat16: bool) -> tuple[Array]:
    """Return the bias in float64, head by head: slopes by the paper's code, or of 8 binary digits."""
    slopes = _slopes(heads, bias_max)
    if bfloat16:
        slopes = in_bfloat16(np.asarray(slopes)).tolist()
    query, key = call.query, call.key
    steps = {
        "distance": -np.abs(key[:, None, :] - query[:, :, None]),
        "key": key[:, None, :] + 0 * query[:, :, None],
        "last_key": key[:, None, :] - key[:, None, -1:] + 0 * query[:, :, None],
    }[form]
    return (np.stack([scale * slope * steps.astype(np.float64) for slope in slopes], 1),)


def in_bfloat16(slopes: Floats) -> Floats:
    """Return slopes of 8 binary digits, in float64."""
    fraction, exponent = np.frexp(slopes.astype(np.float32))
    return np.asarray(np.ldexp(np.rint(fraction * 2.0**8), exponent - 8), np.float64)


def _slopes(heads: int, bias_max: float) -> list[float]:
    """Return the slopes by the recursion of the paper's code: for a power of two a geometric series, else two."""
    power = 2 ** int(np.floor(np.log2(heads)))
    if power == heads:
        return [2.0 ** (-bias_max * (i + 1) / heads) for i in range(heads)]
    return _slopes(power, bias_max) + _slopes(2 * power, bias_max)[::2][: heads - power]


COARSE = 2.0**-7
"""By how much slopes of bfloat16 may miss those of a rule, relatively."""


@fits("bias", family="alibi")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the form from how the bias falls from key to key, and the rule of slopes from those of the first heads.

    Heads may come with the batch on a single axis, and a mask may leave keys out. A bias with a single head, or with
    fewer than three keys, tells too little.
    """
    if seen.numbers.shape[-1] < 3:
        return
    numbers = seen.numbers.astype(np.float64)
    measured = _measured(numbers, seen.spacing)
    if measured is None:
        return
    heads = _period(measured)
    form, steps = next(_fitting(numbers, measured, seen.spacing), ("", numbers))
    if heads < 2 or not form:
        return
    read: dict[str, Value] = {"heads": heads, "form": form}
    rule = _rule(measured[:heads], 4 * seen.spacing + 1e-5)
    if rule is None:
        given = {**read, "slopes": tuple(measured[:heads].tolist())}
        yield Guess(given, measured[:, None, None] * steps, "slopes of no rule", typed={}, tolerance=4 * seen.spacing)
        return
    bias_max, scale, is_coarse = rule
    read["bias_max"] = bias_max
    if scale != 1.0:
        read["scale"] = scale
    if is_coarse:
        read["bfloat16_slopes"] = True
    slopes = scale * (in_bfloat16(slopes_of(heads, bias_max)) if is_coarse else slopes_of(heads, bias_max))

    def exact(positions: Integers) -> Floats:
        """Return the bias of steps from a query to keys, or of positions of keys: (n,) -> (n, heads)."""
        steps = -np.abs(positions) if form == "distance" else positions
        return np.asarray(steps[:, None] * slopes, np.float64)

    # slopes, steps and products are rounded each
    tolerance = 8 * seen.spacing + 1e-5 + (COARSE if is_coarse else 0.0)
    bias = np.tile(slopes, len(numbers) // heads)[:, None, None] * steps
    # a signed distance has no form in the scheme: keys after the query are for a mask to leave out
    yield Guess(read, bias, form, typed={} if form == "signed" else None, exact=exact, tolerance=tolerance)


def slopes_of(heads: int, bias_max: float) -> Floats:
    """Return the slope of each head in float64."""
    return np.asarray(_slopes(heads, bias_max))


def _measured(numbers: Floats, spacing: float) -> Floats | None:
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
    """Return how many heads there are, where a batch repeats them on the same axis, as BLOOM's does."""
    for heads in range(1, len(slopes)):
        if len(slopes) % heads == 0 and np.array_equal(np.tile(slopes[:heads], len(slopes) // heads), slopes):
            return heads
    return len(slopes)


def _fitting(numbers: Floats, slopes: Floats, spacing: float) -> Iterator[tuple[str, Integers]]:
    """Yield the forms that a bias has with measured slopes, and the steps of each query and key, the paper's first."""
    allowed = 4 * spacing * np.nanmax(np.abs(numbers), (1, 2)) + 1e-6
    for form, steps in _forms(*numbers.shape[-2:]):
        if (np.nanmax(np.abs(numbers - slopes[:, None, None] * steps), (1, 2)) <= allowed).all():
            yield form, steps


def _forms(queries: int, keys: int) -> Iterator[tuple[str, Integers]]:
    """Yield the forms, with the steps that slopes are multiplied by: (queries, keys)."""
    key = np.arange(keys)
    # a single query tells no distance from a position of a key; the last query is at the last key, or the first at 0
    for past in dict.fromkeys((keys - queries, 0)) if queries > 1 else ():
        distance = key - np.arange(queries)[:, None] - past
        yield "distance", -np.abs(distance)
        yield "signed", distance
    yield "key", key + np.zeros((queries, 1), np.int64)
    yield "last_key", key - key[-1] + np.zeros((queries, 1), np.int64)


def _rule(slopes: Floats, tolerance: float) -> tuple[float, float, bool] | None:
    """Return bias_max, scale, and whether slopes were rounded to bfloat16, as Falcon's; None where there is no rule.

    Args:
        slopes: of the heads.
        tolerance: of a slope, relative.
    """
    # a scale cancels in the ratio of the first two, which are neighbours in the series of the lower power of two
    power = 2 ** int(np.floor(np.log2(len(slopes))))
    fitted = -float(np.log2(slopes[1] / slopes[0])) * power
    # the paper's 8 comes before any other number
    bias_max = float(round(fitted)) if abs(fitted - round(fitted)) <= 0.02 * power else fitted
    for candidate, off in ((bias_max, tolerance), (bias_max, max(tolerance, COARSE)), (fitted, tolerance)):
        expected = slopes_of(len(slopes), candidate)
        scale = float(np.exp(np.median(np.log(slopes / expected))))
        scale = 1.0 if abs(scale - 1) <= off else scale
        if candidate > 0 and np.abs(slopes / (scale * expected) - 1).max() <= off:
            return candidate, scale, off > tolerance
    return None
