"""cos and sin of fractional positions: angle addition for the whole part, a polynomial for the rest.

With u = 2^-k a step is t = (n + r) u, n a whole number and |r| <= 1/2: both are exact in float32. A baked table has a
row for each n; else n has two digits with a table of about sqrt(n) rows each. k makes r u x frequency an angle of at
most 0.25 (pi / 4 when baked), whose cosine and sine are polynomials. At most two angle additions join the three.

Measured up to 2^17: 2.0e-7, baked 1.3e-7. `get_timestep_embedding` of diffusers is off by 7e-5 at steps up to 1000, and
by 1e-4 with a scale of 1000 and steps of 0 to 1.
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
"""The largest angle of the rest beside digits: a float32 holds it to 1.5e-8."""
LARGEST_FLOAT16 = 65504
TRIED = 2**13
"""Stored steps that are tried, at most."""
CHUNK = 4096
"""Rows that are held against float64 at a time."""
MAX_END = 2**24
"""Beyond it float32 has no odd numbers."""


class FractionalAngleAddition(nn.Module):
    """Cosines and sines of t x frequency for |t| <= `end`, fractions too: within 3e-7 of float64.

    A negative t mirrors the sine. Look-ups refuse a t that is beyond `end` by more than u / 2; nearer to `end` they
    answer rightly. NaN is refused, or stays NaN.

    Args:
        inv_freq: (pairs,) radians per step.
        end: the largest step.
        stored: one row for each n; else two tables of about sqrt(n) rows.
        dtype: of tables and results.
    """

    needs_int64 = "steps are floats, of any size, and counted in parts of a step (whole steps are: -p steps=int)"
    low_sin: Tensor  # (radix, pairs): at 0, u, 2 u, ...
    low_cos: Tensor
    high_sin: Tensor  # (rows, pairs): at 0, radix u, 2 radix u, ...; a single row where all rows are stored
    high_cos: Tensor
    slope: Tensor  # (pairs,): radians of a unit
    stored: Final[bool]
    units: Final[int]
    radix: Final[int]
    last: Final[int]
    end: Final[int]

    def __init__(self, inv_freq: Floats, end: int, *, stored: bool, dtype: torch.dtype) -> None:
        super().__init__()
        if end > MAX_END:
            raise ValueError(f"max_len must be at most {MAX_END} where steps are floats, got {end}")
        self.stored, self.end = stored, end
        self.inv_freq = inv_freq  # an array: stored rows are held against it
        self.dtype = dtype
        self.fastest = float(np.max(inv_freq, initial=0.0))
        self.units = units_per_step(self.fastest, HALF_A_QUARTER if stored else SMALL)
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
        self.probes = Probes(values=tuple(n / self.units for n in self.probed_units()))
        self.register_buffer("slope", torch.from_numpy(slope).to(dtype), persistent=False)

    def probed_units(self) -> list[int]:
        """Return whole numbers of units that read every row; of too many stored rows, some in even steps."""
        if not self.stored:
            return [*range(min(self.radix, self.last + 1)), *range(self.radix, self.last + 1, self.radix)]
        return [*range(0, self.last, -(-self.last // TRIED)), self.last]

    def cos_sin(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: float (...) -> twice (..., pairs)."""
        scaled = steps.abs() * float(self.units)
        whole = scaled.round()  # n; scaled - n is r, and both are exact
        cos, sin = self.at_units(whole.to(torch.int64), steps)
        rest_cos, rest_sin = self.quarters.cos_sin((scaled - whole).unsqueeze(-1) * self.slope)
        # the angle sum identities, for n u + r u
        cos, sin = cos * rest_cos - sin * rest_sin, sin * rest_cos + cos * rest_sin
        return cos, sin * steps.sign().unsqueeze(-1)  # cos(-a) = cos(a), sin(-a) = -sin(a)

    def at_units(self, index: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines of whole numbers of units: int64 (...) -> twice (..., pairs); errors name steps."""
        # NaN casts to an arbitrary int64: map everything outside 0..last to a row that does not exist.
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
        """Graphs must give the same bits as eager."""
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


def units_per_step(fastest: float, max_angle: float) -> int:
    """Return the units of a step, a power of two, such that half a unit is an angle of at most `max_angle`."""
    return 1 << max(0, math.ceil(math.log2(fastest / (2 * max_angle)))) if fastest > 0 else 1


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
