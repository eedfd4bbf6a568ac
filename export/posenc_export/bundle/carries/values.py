"""Values: numbers, of which at most their range is known."""

from collections.abc import Iterable
from math import ceil, floor

import numpy as np

from posenc.ports import Array, Port, Values
from posenc_export.bundle.carries import Limits, PlannedCall, PortKind, Random, Shape, Word
from posenc_export.common.arrays import DTYPES, FLOATS, INTEGERS

WHOLE = 5
"""One in so many numbers of a range is rounded."""
PEAKED = 3.0
"""Standard deviation of the scores whose softmax is fed: a few keys have most of the weight, as in attention."""
INTEGERS_BELOW = {"int64": 2**63, "int32": 2**31}
"""The exclusive bounds of integers by dtype."""


def are_probabilities(port: Port) -> bool:
    """Whether a port carries numbers that sum to 1 along the last axis."""
    return isinstance(port.carries, Values) and port.carries.probabilities


def _feed(values: Values, port: Port, shape: Shape, call: PlannedCall, rng: Random) -> Array:
    """Return normal numbers, or uniform numbers over a declared range; integers without a range are 0 and 1."""
    # An input that is always a single number is by turns random, the low end and the high end of its range.
    is_single = not port.dynamic and np.prod(shape) == 1
    if port.dtype not in FLOATS:
        return _integers(values, shape, call.draw if is_single else None, rng)
    if call.probe_values:
        return np.broadcast_to(call.probe_values, shape)
    if values.probabilities:
        # (..., keys): a softmax over the last axis
        weights: Array = np.exp(PEAKED * rng.standard_normal(shape))
        return np.asarray(weights / weights.sum(-1, keepdims=True))
    low, high = values.low, values.high
    if low is None or high is None:
        return np.asarray(rng.standard_normal(shape))
    if call.refused and values.strict:
        return np.full(shape, float(call.first))
    if is_single:
        return np.full(shape, (rng.uniform(low, high), low, high)[call.draw % 3])
    numbers = np.asarray(rng.uniform(low, high, shape))
    if numbers.size > 1:  # both ends are tried, and whole numbers among others, where digits change
        numbers.flat[::WHOLE] = np.clip(np.rint(numbers.flat[::WHOLE]), low, high)
        numbers.flat[0], numbers.flat[-1] = low, high
    return numbers


def _integers(values: Values, shape: Shape, draw: int | None, rng: Random) -> Array:
    """Return integers of a range with both of its ends; `draw` is the turn of a single number."""
    if values.low is None or values.high is None:
        return np.asarray(rng.integers(0, 2, shape))
    low, high = int(values.low), int(values.high)
    integers = np.asarray(rng.integers(low, high, shape, endpoint=True))
    if draw is not None:
        return np.full(shape, (int(integers.item()), low, high)[draw % 3])
    if integers.size > 1:
        integers.flat[0], integers.flat[-1] = low, high
    return integers


def _least(values: Values, port: Port, sizes: object) -> int | None:
    return None if values.low is None or port.dtype not in INTEGERS else int(values.low)


def _refused(values: Values) -> Iterable[tuple[int, int]]:
    if values.bounds:
        low, high = values.bounds
        yield from ((floor(low) - 1, 2), (ceil(high) + 1, 2))


def _misfits(values: Values, port: Port) -> Iterable[str]:
    """Yield that the ends of a range are in the wrong order, or that the dtype does not hold them."""
    ends = [end for end in (values.low, values.high) if end is not None]
    below = INTEGERS_BELOW.get(port.dtype)
    fits = below is None or all(end == int(end) and abs(end) < below for end in ends)
    # an integer may be the same in every call, as a mask of ones
    constant = port.dtype in INTEGERS and len(set(ends)) == 1
    if not fits or (len(ends) == 2 and ends[0] >= ends[1] and not constant):
        yield f" must be a range that {port.dtype} holds, high above low, or null"


def _documented(values: Values, port: Port) -> str:
    if values.bounds:
        return " in {:g}..{:g}".format(*values.bounds)
    if port.dtype in INTEGERS and values.low is not None and values.high is not None:
        return f" in {int(values.low)}..{int(values.high)}"
    return ""


KIND = PortKind(
    Values,
    {"low": "NoNumber", "high": "NoNumber", "strict": "Flag?", "probabilities": "Flag?"},
    feed=_feed,
    draw=lambda values, shape, least, fill: np.full(shape, 1 / shape[-1] if values.probabilities else fill),
    least=_least,
    limits=lambda values: Limits(bounds=values.bounds),
    refused=_refused,
    in_part=True,
    misfits=_misfits,
    words=(
        Word("in", Values, (*FLOATS, *INTEGERS), "range", refusal="no range: only numbers have one"),
        Word("values", Values, DTYPES),
    ),
    documented=_documented,
)
