"""Rotary position embedding on a grid: half of the pairs by the row, half by the column (Qwen2-VL's vision)."""

from collections.abc import Iterator

import numpy as np

from posenc.formulas.fitting import Guess, Observation, call_of, fits
from posenc.formulas.parts import rotation
from posenc.formulas.parts.turning import axes_of_pairs, bases_of, turn_along
from posenc.formulas.rope_nd import Axial, reference


@fits("rotation", family="rotary")
def fit(seen: Observation) -> Iterator[Guess]:
    """Guess the base from the turns of the first half of the pairs, along the rows."""
    half = seen.width // 2
    if len(seen.places) != 2 or seen.layout not in ("halves", "interleaved") or seen.width % 2:
        return
    if axes_of_pairs(seen) != [0] * half + [1] * half or seen.head_dim not in (0, 4 * half):
        return
    for base in bases_of(turn_along(seen.numbers, 0)[:half], np.arange(half) / half):
        axial = Axial((2 * half, 2 * half), (base, base), axis_order=(0, 1), first=(0.0, 0.0), scale=(1.0, 1.0))
        cos, sin = reference(call_of(seen), axial=axial, pairs=rotation.Pairs(seen.layout, "bhsd"))
        yield Guess({"head_dim": 4 * half, "rope_theta": base, "layout": seen.layout}, (cos + 1j * sin)[0])
