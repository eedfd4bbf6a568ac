"""Cosines and sines of fractional numbers, from digits as in angle addition and from the rest.

A step is a whole number of units 2^-k, exact in float32, and a rest. The whole number has two digits with a table of
about sqrt(n) rows each, or one row when baked; k makes the rest an angle of at most 0.25 (pi / 4 when baked). Two
angle additions join the three. Measured up to 2^17: 2.0e-7, baked 1.3e-7. `get_timestep_embedding` of diffusers is off
by 7e-5 at steps up to 1000, and by 1e-4 with a scale of 1000 and steps of 0 to 1.
"""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Probes, Tolerance
from posenc.memory import check_room
from posenc.ports import Floats
from posenc.sincos.direct import reduced_error
from posenc.sincos.quarters import HALF_A_QUARTER, Quarters
from posenc.sincos.rows import float64_error, waves
from posenc.stored import StoredRows, circular, rounded

SMALL = 0.25
"""The largest angle that digits leave: a float32 holds it to 1.5e-8."""
LARGEST_FLOAT16 = 65504
TRIED = 2**13
"""Stored steps that are tried, at most."""
CHUNK = 4096
"""Rows that are held against float64 at a time."""
MOST = 2**24
"""Beyond it float32 has no odd numbers."""


class FractionalSteps(nn.Module):
    """Cosines and sines of t x frequency for |t| <= `end`, fractions too: within 3e-7 of float64.

    With u = 2^-k and |t| = (n + r) u, n a whole number and |r| <= 1/2, all three are exact in float32. n has a row, or
    two digits that have one each; r u x frequency is an angle of at most 0.25 by the choice of k (pi / 4 with a row for
    each n), whose cosine and sine are polynomials. The angle sum identities put them together: two additions in all,
    as whole positions take. A negative t mirrors the sine. Look-ups refuse what is beyond `end` by more than half of u,
    and answer rightly what is beyond it by less; NaN is refused or stays NaN.

    stored: one row for each n; else two tables of about sqrt(n) rows.
    """

    low_sin: Tensor  # (radix, pairs): of 0, u, 2 u, ...
    low_cos: Tensor
    high_sin: Tensor  # (rows, pairs): of 0, radix u, 2 radix u, ...; none where all rows are stored
    high_cos: Tensor
    slope: Tensor  # (pairs,): radians of a unit
    stored: Final[bool]
    units: Final[int]
    radix: Final[int]
    last: Final[int]
    end: Final[int]

    def __init__(self, inv_freq: Floats, end: int, *, stored: bool, dtype: torch.dtype) -> None:
        super().__init__()
        if end > MOST:
            raise ValueError(f"max_len must be at most {MOST} where steps are floats, got {end}")
        self.stored, self.end = stored, end
        self.inv_freq = inv_freq  # an array: what is stored is held against it
        self.dtype = dtype
        self.fastest = float(np.max(inv_freq, initial=0.0))
        self.units = units(self.fastest, HALF_A_QUARTER if stored else SMALL)
        self.last = end * self.units
        self.radix = self.last + 1 if stored else 1 << math.ceil(math.log2(self.last + 1) / 2)
        self.quarters = Quarters(dtype)
        overflows = f"float16 ends at {LARGEST_FLOAT16}, and steps are counted in 1/{self.units} up to {end}"
        self.half_safe = overflows if self.last > LARGEST_FLOAT16 else ""
        slope = inv_freq / self.units
        check_room("a table", (self.radix, 2 * len(slope)), str(dtype).removeprefix("torch."))
        for name, rows, step in (("low", self.radix, 1), ("high", self.last // self.radix + 1, self.radix)):
            sin, cos = waves(step * np.arange(rows), slope)
            self.register_buffer(f"{name}_sin", sin.to(dtype), persistent=False)
            self.register_buffer(f"{name}_cos", cos.to(dtype), persistent=False)
        self.probes = Probes(values=tuple(n / self.units for n in self.read()))
        self.register_buffer("slope", torch.from_numpy(slope).to(dtype), persistent=False)

    def read(self) -> list[int]:
        """Return whole numbers of units that read every row, in even steps where these are more than can be tried."""
        if not self.stored:
            return [*range(min(self.radix, self.last + 1)), *range(self.radix, self.last + 1, self.radix)]
        return [*range(0, self.last, -(-self.last // TRIED)), self.last]

    def cos_sin(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: float (...) -> twice (..., pairs)."""
        scaled = steps.abs() * float(self.units)
        whole = scaled.round()
        cos, sin = self.of_whole(whole.to(torch.int64), steps)
        left_cos, left_sin = self.quarters.cos_sin((scaled - whole).unsqueeze(-1) * self.slope)
        cos, sin = cos * left_cos - sin * left_sin, sin * left_cos + cos * left_sin
        return cos, sin * steps.sign().unsqueeze(-1)

    def of_whole(self, index: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of whole numbers of units: int64 (...) -> twice (..., pairs); errors name steps."""
        # What is no number becomes negative, or as large as can be: a look-up must refuse it.
        index = index.masked_fill((index < 0) | (index > self.last), self.radix * self.radix * 2)
        if self.stored:
            return rows_at(self.low_cos, index, steps, self.end), rows_at(self.low_sin, index, steps, self.end)
        high, low = index // self.radix, index % self.radix
        a_sin, a_cos = rows_at(self.high_sin, high, steps, self.end), rows_at(self.high_cos, high, steps, self.end)
        b_sin, b_cos = rows_at(self.low_sin, low, steps, self.end), rows_at(self.low_cos, low, steps, self.end)
        return a_cos * b_cos - a_sin * b_sin, a_sin * b_cos + a_cos * b_sin

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far cosines and sines may be from the reference: two angle additions, anywhere."""
        return Tolerance(atol=reduced_error(self.dtype) + float64_error(math.ceil(self.end * max(self.fastest, 1.0))))

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Return how far a graph's may be from these: no bit."""
        return SAME_BITS

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the rows of each digit, a few at a time."""
        per_unit = self.inv_freq / self.units
        for name, rows, step in (("low", self.radix, 1), ("high", self.last // self.radix + 1, self.radix)):
            for first in range(0, rows, CHUNK):
                units = step * np.arange(first, min(first + CHUNK, rows))
                sin, cos = circular(units, per_unit)
                allowed = rounded(float(units[-1]) * float(np.max(per_unit, initial=0.0)))
                yield StoredRows(f"{name}_sin", sin, allowed, first)
                yield StoredRows(f"{name}_cos", cos, allowed, first)


def units(fastest: float, most: float) -> int:
    """Return into how many units one is cut, a power of two, so that half a unit is an angle of at most `most`."""
    return 1 << max(0, math.ceil(math.log2(fastest / (2 * most)))) if fastest > 0 else 1


def rows_at(table: Tensor, index: Tensor, steps: Tensor, end: int) -> Tensor:
    """Return `table[index]`: (rows, pairs), (...) -> (..., pairs); eager errors name the step that is beyond."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return torch.nn.functional.embedding(index, table)
    return _rows_at_steps(table, index, steps, end)


def _rows_at_steps(table: Tensor, index: Tensor, steps: Tensor, end: int) -> Tensor:
    try:
        return torch.nn.functional.embedding(index, table)
    except IndexError:
        at = torch.nonzero((index < 0) | (index >= table.shape[0]))[0].tolist()
        place = f" at {at}" if steps.numel() > 1 else ""
        raise IndexError(f"steps must be numbers in -{end}..{end}, got {steps[tuple(at)].numpy()!s}{place}") from None
