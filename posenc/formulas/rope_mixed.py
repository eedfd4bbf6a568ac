"""RoPE-Mixed (arXiv:2403.13298): patches are rotated by row and column at once, at learned frequencies of each head."""

from collections.abc import Iterator

import numpy as np

from posenc.call import Call
from posenc.formulas.fitting import Guess, Observation, fits
from posenc.formulas.parts import rotation
from posenc.formulas.parts.turning import turn_along
from posenc.ports import Array, Floats


def reference(call: Call, *, frequencies: Floats, pairs: rotation.Pairs) -> tuple[Array, ...]:
    """Return the outputs in float64: each head by itself, at its own angles."""
    row, column = call.positions  # (1, height, width) each, or (batch, seq)
    axis = 1 if pairs.tensor_layout == "bhsd" else -2
    outputs = []
    for value in call.values:
        rotated = [
            rotation.apply_rotary(head, np.multiply.outer(column, across) + np.multiply.outer(row, down), 1.0, pairs)
            for head, across, down in zip(np.split(value, len(frequencies[0]), axis), *frequencies, strict=True)
        ]
        outputs.append(np.concatenate(rotated, axis))
    return tuple(outputs)


@fits("rotation", family="rotary")
def fit(seen: Observation) -> Iterator[Guess]:
    """Measure the learned frequencies of each head: turns along the row, and along the column."""
    if seen.numbers.ndim != 4 or seen.layout != "interleaved":
        return
    # (height, width, heads, pairs)
    height, width, heads, pairs = seen.numbers.shape
    flat = seen.numbers.reshape(height, width, heads * pairs)
    down, across = turn_along(flat, 0), turn_along(flat, 1)
    angle = np.arange(height)[:, None, None] * down + np.arange(width)[:, None] * across
    yield Guess({"heads": heads, "head_dim": 2 * pairs}, np.exp(1j * angle).reshape(seen.numbers.shape))
