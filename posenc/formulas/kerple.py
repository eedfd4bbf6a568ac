"""KERPLE (arXiv:2205.09921): a score loses a learned function of the distance from its query to its key.

    log      -r1 * log(1 + r2 * distance)
    power    -r1 * distance^r2, r2 at most 2

Each head has an r1 and an r2 of its own, both above 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.decimals import shortest
from posenc.parameters import Value
from posenc.ports import Array, Floats, Integers

KERNELS = ("log", "power")
FEWEST = 6
"""Distances that a call has at least: two numbers of a head are fitted to them."""
STEEPEST = 2.0
"""The largest power of a kernel that is conditionally positive definite."""
FLATTEST = 0.01
"""Below this product of r2 and the largest distance, a logarithm is a straight line to a part in two hundred."""
RANGE = (1e-8, 1e12)
"""Numbers among which r2 of a logarithm is looked for."""
HALVINGS = 100
ROUNDINGS = 4
"""The roundings of a number beside its largest: those of the steps, of the kernel and of both products."""
OF_LOGARITHM = 2.0**-20
"""What logarithms and powers of float32 may miss, as a share of the largest number."""
NEAR = 64
"""How many times as far as the numbers of a call what is fitted to them may be off."""
MEASURED = 1e-4
"""By how much numbers that were measured may be another short decimal, as a share."""


def reference(call: Call, *, kernel: str, r1: tuple[float, ...], r2: tuple[float, ...]) -> tuple[Array]:
    """Return the bias in float64, head by head: (batch, heads, queries, keys)."""
    distance = np.abs(call.key[:, None, None, :] - call.query[:, None, :, None]).astype(np.float64)
    scale, shape = (np.asarray(each, np.float64)[:, None, None] for each in (r1, r2))
    return (-scale * (np.log1p(shape * distance) if kernel == "log" else distance**shape),)


@dataclass(frozen=True)
class Fitted:
    """The numbers of all heads by a kernel: r1 and r2 of each, and the bias of each distance (heads, distances)."""

    r1: Floats
    r2: Floats
    values: Floats


@fits("bias", family="relative", last=True)
def fit(seen: Observation) -> Iterator[Guess]:
    """Fit both kernels to the keys up to each query; the numbers of later keys are those, or 0, or masked.

    A straight line is ALiBi's, and what both kernels explain in the precision of a graph is neither's for certain.
    """
    queries, keys = seen.numbers.shape[-2:]
    if len(seen.numbers) < 2 or keys < queries or queries < 2:
        return
    numbers = seen.numbers.astype(np.float64)
    steps = np.arange(queries)[:, None] + keys - queries - np.arange(keys)
    values = _by_distance(numbers, steps)
    if values is None or values.shape[-1] <= FEWEST:
        return
    within = ROUNDINGS * seen.spacing + OF_LOGARITHM
    found = {kernel: fitted for kernel in KERNELS if (fitted := _fitted(kernel, values, within)) is not None}
    if len(found) != 1:
        return
    (kernel, fitted) = next(iter(found.items()))
    later = steps < 0
    above = numbers[:, later]
    whole = -fitted.values[:, np.minimum(np.abs(steps), values.shape[-1] - 1)]
    is_zero = bool(above.size) and bool(((above == 0) | np.isnan(above)).all())
    expected = np.where(later, 0.0, whole) if is_zero else whole
    r1, r2 = (_written(part, seen.tables, within) for part in (fitted.r1, fitted.r2))
    scale, shape = np.array(r1), np.array(r2)

    def exact(steps: Integers) -> Floats:
        """Return the bias of steps from a query to keys: (n,) -> (n, heads)."""
        distance = np.abs(steps).astype(np.float64)[:, None]
        return np.asarray(-scale * (np.log1p(shape * distance) if kernel == "log" else distance**shape))

    read: dict[str, Value] = {"kernel": kernel, "r1": r1, "r2": r2}
    # keys after a query are for a mask to leave out, whatever their numbers are
    yield Guess(
        {"heads": len(numbers), **read}, expected, f"kerple {kernel}", typed=read, exact=exact, tolerance=within
    )


def _written(fitted: Floats, stored: tuple[Array, ...], within: float) -> tuple[float, ...]:
    """Return fitted numbers as they are stored, where a tensor holds them; else the shortest decimals near them."""
    for table in stored:
        numbers = np.abs(table.astype(np.float64)).reshape(-1)
        if numbers.shape == fitted.shape and np.abs(numbers - fitted).max() <= NEAR * within * np.abs(fitted).max():
            return tuple(shortest(each, OF_LOGARITHM * each) for each in numbers.tolist())
    return tuple(shortest(each, MEASURED * each) for each in fitted.tolist())


def _by_distance(numbers: Floats, steps: Integers) -> Floats | None:
    """Return minus the bias of each distance behind a query (heads, distances); None where a diagonal is not even.

    Distances that a mask leaves out end the way: none behind the first of them is known.
    """
    rows = []
    for distance in range(int(steps.max()) + 1):
        diagonal = numbers[:, steps == distance]
        there = diagonal[:, ~np.isnan(diagonal).any(0)]
        if not there.shape[-1]:
            break
        if np.ptp(there, axis=-1).max() > 0:
            return None
        rows.append(-there[:, 0])
    return np.stack(rows, -1) if rows else None


def _fitted(kernel: str, values: Floats, within: float) -> Fitted | None:
    """Return the numbers of all heads by a kernel; None where that of one head is off by more than roundings."""
    distance = np.arange(values.shape[-1], dtype=np.float64)
    one, last = values[:, 1], values[:, -1]
    # nothing is lost at a distance of 0, and more and more behind it
    if (values[:, 0] != 0).any() or (one <= 0).any() or (last <= one).any():
        return None
    if kernel == "power":
        r2 = np.log(last / one) / np.log(distance[-1])
        shapes = distance ** r2[:, None]
        if (r2 > STEEPEST + within).any():
            return None
    else:
        r2 = np.array([_of_ratio(float(ratio), distance[-1]) for ratio in last / one])
        if (r2 * distance[-1] < FLATTEST).any() or (r2 >= RANGE[1] / 2).any():
            return None
        shapes = np.log1p(r2[:, None] * distance)
    # the least squares of each head
    r1 = (values * shapes).sum(-1) / (shapes * shapes).sum(-1)
    expected = r1[:, None] * shapes
    off = np.abs(values - expected).max(-1)
    return Fitted(r1, r2, expected) if (off <= within * last).all() else None


def _of_ratio(ratio: float, far: float) -> float:
    """Return r2 of log(1 + r2 far) / log(1 + r2), which falls as r2 grows."""
    low, high = np.log(RANGE)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_above = np.log1p(np.exp(middle) * far) / np.log1p(np.exp(middle)) > ratio
        low, high = (middle, high) if is_above else (low, middle)
    return float(np.exp(low))
