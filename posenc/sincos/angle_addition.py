"""Cosines and sines composed from one small table a digit of the position.

A position below 2^24 is 32768 h + 64 m + l. The tables of the three digits have 512, 512 and 64 rows: 2.4 MB at
d_model 512. The lowest digit is the small one, since positions 0..length-1 are computed in whole blocks of it: at most
64 rows are wasted, and the table stays in the cache. Its rows are stored at full width in the output's layout, the two
others as sines and cosines. The largest error over all 2^24 positions of 64 frequencies, computed one by one in C:
2.32e-7.

* The number of blocks is at least two (`torch.sym_max`). With one block torch.export would record "fewer than two
  blocks", and the graph would hold for one block only, without a message. Any traced length from 2 on is therefore
  safe.
* Split cuts rows to length, not Slice: a Split refuses a length beyond the rows. In ONNX it is written as a Slice of
  one row and a Reshape (`write/formats/onnx/forms.py`), which ONNX Runtime copies in one move as it does a Split. A
  Slice of rows took 0.17 ms at length 512, where a Split took 0.13 ms for the whole graph.
* `//` and `%` take digits from integers. A division that exports through float32 would hold the position as a float,
  which a conversion of the file to half precision turns to noise (1.9 at position 4095). Negative positions are moved
  beyond the end first, since ONNX would count them from the last row. After that nothing is negative, and the ONNX file
  writes `//` as one Div, without the correction for negative numbers. A Clip to -1..2^24 and a remainder move them:
  no position is lost to a wrap, as the Clip leaves none that is far, and ONNX Runtime takes half as long as for a
  Less and a Where (0.5 and 1.1 microseconds at one token).
* Blocks and single positions combine the digits in the same order of products and sums, so that both give the same
  bits.
* Sines and cosines have tables of their own: two Gathers cost less than one Gather and a Split. Measured at 2048
  positions of 64 pairs against a hand-made graph of one operator: 1.07x to 1.1x of its time, and 1.16x to 1.2x with
  the Split.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Probes, Tables, Tolerance, too_small
from posenc.lookup import check_length, check_width, take
from posenc.ports import Floats
from posenc.sincos.direct import reduced_error
from posenc.sincos.rows import arrange, float64_error, largest_angle, layout_of, waves
from posenc.stored import StoredRows, circular, laid_out, rounded

LOW, MID, HIGH = 64, 512, 512
"""Rows of the digit tables. A small lowest digit wastes little of the last block of 0..length-1."""
END = LOW * MID * HIGH
"""Angle addition holds every position below this: 2^24 = 16,777,216."""
FAR = 2**30
"""A number by which -1 is moved beyond the end, in int32 as well."""
DIGITS = ("low_sin", "low_cos", "mid_sin", "mid_cos", "high_sin", "high_cos")
BY_BLOCK = ("mid_sin", "mid_cos", "high_sin", "high_cos")
"""Tables that the number of a block looks up; a position looks up the lowest digit, too."""
EVERY_ROW = tuple((i * LOW * MID) + LOW * (37 * i % MID) + i % LOW for i in range(HIGH))
"""Positions that read every row of every table: 37 and 512 have no divisor in common."""


class AngleAddition(nn.Module):
    """Rows composed from one table per digit of the position: within 3e-7 of float64 at all of 2^24 positions.

    With p = 32768 h + 64 m + l and its parts' sines and cosines known, the angle sum identities give those of p:

        sin(a + b) = sin(a) cos(b) + cos(a) sin(b)        cos(a + b) = cos(a) cos(b) - sin(a) sin(b)

    Products and sums are exactly defined by IEEE 754, so eager PyTorch, TorchScript and ONNX Runtime give the same bits
    as long as nothing contracts them to fused multiply-adds. Positions 0..length-1 cost one such step over the whole
    output: the rows at its block starts, few, times the table of the lowest digit. A position has the same bits
    whichever way it is given.

    Source: the identity is why the paper chose sinusoids, section 3.5 of arXiv:1706.03762.
    """

    low_sin: Tensor  # (64, pairs): sines of 0, 1, ..., 63
    low_cos: Tensor
    mid_sin: Tensor  # (512, pairs): of 0, 64, ..., 32704
    mid_cos: Tensor
    high_sin: Tensor  # (512, pairs): of 0, 32768, ...
    high_cos: Tensor
    row_sin: Tensor  # (64, width): the sine of the lowest digit that each output column is combined with
    row_cos: Tensor
    block: Final[int] = LOW
    radix: Final[int] = MID
    end: Final[int] = END
    far: Final[int] = FAR
    width: Final[int]
    interleaved: Final[bool]
    by_block = BY_BLOCK
    probes = Probes(lengths=(127, 128, 129), positions=EVERY_ROW)  # two blocks but for a row, whole, and a row more
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(
        self,
        inv_freq: Floats,
        width: int,
        *,
        interleaved: bool,
        dtype: torch.dtype,
        scale: float = 1.0,
        phase: Floats | None = None,
    ) -> None:
        super().__init__()
        self.width = width
        self.interleaved = interleaved
        self.scale = scale
        self.inv_freq, self.phase = inv_freq, phase  # arrays: what is stored is held against them
        self.half_safe = too_small(abs(scale))
        for name, rows, step in (("low", LOW, 1), ("mid", MID, LOW), ("high", HIGH, LOW * MID)):
            # Every row is a sum of products with one factor from the lowest digit: scaling those scales all, and
            # their phase is that of all.
            lowest = name == "low"
            sin, cos = waves(step * np.arange(rows), inv_freq, scale if lowest else 1.0, phase if lowest else None)
            self.register_buffer(f"{name}_sin", sin.to(dtype), persistent=False)
            self.register_buffer(f"{name}_cos", cos.to(dtype), persistent=False)
        for name, digit in (("row_sin", self.low_sin), ("row_cos", self.low_cos)):
            self.register_buffer(name, arrange(digit, digit, interleaved, width).contiguous(), persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        check_width(width, self.width)
        cos, sin = self.cos_sin(positions)
        return arrange(sin, cos, self.interleaved, self.width)

    def cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (...) -> twice (..., pairs)."""
        # Positions out of range are moved beyond the end first: then every quotient is a plain integer division.
        positions = positions.clamp(-1, self.end) % self.far
        a_sin, a_cos = self.block_starts(positions // self.block)
        digit = positions % self.block
        b_sin, b_cos = take(self.low_sin, digit, self.end), take(self.low_cos, digit, self.end)
        return a_cos * b_cos - a_sin * b_sin, a_sin * b_cos + a_cos * b_sin  # cos(a + b), sin(a + b)

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        check_width(width, self.width)
        check_length(length, self.end)
        blocks = (length + (self.block - 1)) // self.block
        sin, cos = self.block_starts(
            torch.arange(at_least_two(blocks), dtype=self.count_dtype, device=self.low_sin.device)
        )
        # With a block's (s, c) laid out as rows, (s c) row_cos + (c -s) row_sin is (sin(a + b), cos(a + b)).
        start = arrange(sin, cos, self.interleaved, self.width).unsqueeze(1)  # (blocks, 1, width)
        quarter_ahead = arrange(cos, -sin, self.interleaved, self.width).unsqueeze(1)
        rows = (start * self.row_cos + quarter_ahead * self.row_sin).flatten(0, 1)  # (blocks * 64, width)
        # A Split refuses a length beyond the rows. In ONNX it is a Slice of one row of numbers: that is as fast.
        first: Tensor = rows.split([length, rows.shape[0] - length])[0]  # (length, width)
        return first.unsqueeze(0)

    def block_starts(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines of the positions 64 * index: (...) -> twice (..., pairs)."""
        # index = 512 high + mid
        high = index // self.radix
        mid = index % self.radix
        a_sin, a_cos = take(self.high_sin, high, self.end), take(self.high_cos, high, self.end)
        b_sin, b_cos = take(self.mid_sin, mid, self.end), take(self.mid_cos, mid, self.end)
        return a_sin * b_cos + a_cos * b_sin, a_cos * b_cos - a_sin * b_sin

    def tolerance(self, max_position: int) -> Tolerance:
        """Return how far rows may be from the reference: two angle additions, anywhere."""
        return Tolerance(atol=reduced_error(self.low_sin.dtype) + float64_error(max_position))

    def largest_angle(self, max_position: int) -> float:
        """Return the largest angle, in radians, of positions up to one."""
        return largest_angle(max_position, self.inv_freq, self.phase)

    def eager_tolerance(self, max_position: int) -> Tolerance:
        """Graphs must give the same bits as eager."""
        return SAME_BITS

    def tables(self) -> Tables:
        """Return the tables of the three digits."""
        arrays = {name: getattr(self, name) for name in DIGITS}
        axes = (0,) * int(self.low_sin.shape[1])
        layout = layout_of(self.interleaved)
        return Tables("digits", arrays, axes, self.width, layout, END, (self.block, self.radix))

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the rows of each digit, and of the columns that the lowest one is laid out in."""
        for name, rows, step in (("low", LOW, 1), ("mid", MID, LOW), ("high", HIGH, LOW * MID)):
            scale, phase = (self.scale, self.phase) if name == "low" else (1.0, None)
            sin, cos = circular(step * np.arange(rows), self.inv_freq, scale, 0.0 if phase is None else phase)
            allowed = rounded(largest_angle(step * rows, self.inv_freq, phase), scale)
            yield StoredRows(f"{name}_sin", sin, allowed)
            yield StoredRows(f"{name}_cos", cos, allowed)
            if name == "low":
                yield StoredRows("row_sin", laid_out(sin, sin, self.interleaved, self.width), allowed)
                yield StoredRows("row_cos", laid_out(cos, cos, self.interleaved, self.width), allowed)


def at_least_two(blocks: int) -> int:
    """Return the number of blocks, two at least: a tracer that meets a single one makes the graph hold for no more."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return max(blocks, 2)
    least: int = torch.sym_max(blocks, 2)
    return least
