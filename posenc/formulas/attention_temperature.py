"""Attention temperature by position: what queries far along in a text are multiplied by (Llama 4, Ministral 3)."""

from collections.abc import Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts.decimals import positive_guesses
from posenc.ports import Array, Floats, Integers


def factors(positions: Integers, *, beta: float, step: int, offset: int) -> Floats:
    """Return the factors in float64, from the formula alone."""
    whole = positions.astype(np.int64) + offset
    steps = (whole - whole % step) / step
    return np.asarray(1.0 + beta * np.log(1.0 + steps))


def reference(call: Call, *, beta: float, step: int, offset: int) -> tuple[Array]:
    """Return the factors in float64 at the positions to compare: (batch, seq, 1)."""
    positions = call.positions[..., call.picked, None]
    return (factors(positions, beta=beta, step=step, offset=offset),)


@fits("factor", family="temperature")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the step from where the factor grows, the offset from the first step, and beta from how much it grows."""
    factor = seen.numbers.astype(np.float64)
    grows = np.flatnonzero(np.diff(factor) > seen.spacing) + 1
    if len(grows) < 2 or abs(factor[0] - 1.0) > seen.spacing:
        return
    step, offset = int(grows[1] - grows[0]), int((grows[1] - grows[0]) - grows[0])
    last = (len(factor) - 1 + offset) // step
    for beta in positive_guesses(float((factor[-1] - 1.0) / np.log(1.0 + last))):
        positions = np.arange(len(factor))
        read = {"beta": beta, "step": step, "offset": offset}

        def exact(places: Integers, beta: float = beta) -> Floats:
            """Return the factors of places that have the offset: (n,) -> (n, 1)."""
            return factors(places, beta=beta, step=step, offset=0)[:, None]

        yield Guess(read, factors(positions, beta=beta, step=step, offset=offset), exact=exact)
