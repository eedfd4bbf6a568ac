"""Cosines and sines: those of the first positions stored, all others composed from one small table a digit.

The rows of positions below `table_rows` are stored, half an ulp from float64. Any other position below 2^24 is
32768 h + 64 m + l, and its row is composed from those of h, m and l. The tables of h and m have 512 rows each, and l is
one of the first 64 rows: 2 MB at d_model 512 beside the 4 MB of 2,048 stored rows. The largest error over all 2^24
positions of 64 frequencies, computed one by one in C: 2.32e-7.

* A position that is stored has h = m = 0 and is itself l. The sine of 0 is 0 and its cosine 1, and products and sums
  with these leave a row as it is: so one way through the digits serves all positions, and each has one set of bits.
* Positions 0..length-1 are the first stored rows, by a Slice, and behind them blocks of 64: each is the row of its
  start times the first 64 rows, which stay in the cache. A Concat joins them. A call that ends in the table has no
  blocks but an empty part of one: an If would be one operator instead of thirty, but CUDA graphs take none. The last
  block is computed as far as it is needed, since a Slice of all blocks would copy them once more. Rows of the starts
  are stored as they are laid out, twice as many numbers as their sines and cosines: to lay them out takes nine
  operators, 3 microseconds of some 50 at 128 rows of 512.
* `start` and explicit positions look rows up one by one: whether all of them are stored is known only in the call, and
  an If would keep CUDA graphs away. Blocks from that of `start` on would be as fast as a count from 0, but compute two
  blocks for one token, which is what `start` is for. One such row takes as long with 2,048 stored rows as with 64.
* An exporter must not look at the number of positions beyond the table: it is 0 where most calls are traced, and
  torch.export would keep the graph to such calls. `unseen` hides it. Any traced length from 2 on is therefore safe.
* `//` takes blocks from integers. A division that exports through float32 would hold the position as a float, which a
  conversion of the file to half precision turns to noise (1.9 at position 4095). Negative positions are moved beyond
  the end first, since ONNX would count them from the last row: a Clip to -1..2^24 and a remainder, so that no position
  is lost to a wrap, and ONNX Runtime takes half as long as for a Less and a Where (0.5 and 1.1 microseconds at one
  token). After that nothing is negative, and the ONNX file writes `//` as one Div, without the correction for negative
  numbers.
* Blocks and single positions combine the digits in the same order of products and sums, so that both give the same
  bits.
* Sines and cosines have tables of their own: two Gathers cost less than one Gather and a Split. Measured at 2048
  positions of 64 pairs against a hand-made graph of one operator: 1.07x to 1.1x of its time, and 1.16x to 1.2x with
  the Split.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, overload

import numpy as np
import torch
from torch import Tensor, nn

from posenc.encoding import SAME_BITS, Probes, Tables, Tolerance, too_small
from posenc.lookup import check_length, check_width, index_or_end, take
from posenc.ports import Floats
from posenc.sincos.direct import reduced_error
from posenc.sincos.rows import arrange, float64_error, largest_angle, layout_of, waves
from posenc.spec import TABLE_ROWS
from posenc.stored import StoredRows, circular, laid_out, rounded

LOW, MID, HIGH = 64, 512, 512
"""Positions of a block, and rows of the tables of digits of its number."""
END = LOW * MID * HIGH
"""Angle addition holds every position below this: 2^24 = 16,777,216."""
DIGITS = ("low_sin", "low_cos", "mid_sin", "mid_cos", "high_sin", "high_cos")
BY_BLOCK = (
    *("mid_sin", "mid_cos", "high_sin", "high_cos"),
    *("mid_row_sin", "mid_row_cos", "high_row", "high_ahead"),
)
"""Tables that the number of a block looks up; a position looks up the table of the first rows, too."""
EVERY_ROW = tuple((i * LOW * MID) + LOW * (37 * i % MID) + i % LOW for i in range(HIGH))
"""Positions that read every row of both digits of a block, and 64 of the first: 37 and 512 have no divisor in common.

`stored_rows` says what all others of the first must be.
"""


class AngleAddition(nn.Module):
    """Rows composed from tables of parts of the position: within 3e-7 of float64 at all of 2^24 positions.

    With p = 32768 h + 64 m + l and its parts' sines and cosines known, the angle sum identities give those of p:

        sin(a + b) = sin(a) cos(b) + cos(a) sin(b)        cos(a + b) = cos(a) cos(b) - sin(a) sin(b)

    Products and sums are exactly defined by IEEE 754, so eager PyTorch, TorchScript and ONNX Runtime give the same bits
    as long as nothing contracts them to fused multiply-adds. Rows of positions below `table_rows` are stored, and
    within half an ulp of float64. A position has the same bits whichever way it is given.

    Source: the identity is why the paper chose sinusoids, section 3.5 of arXiv:1706.03762.

    Args:
        inv_freq: (pairs,) radians per position.
        width: Columns of a row; an odd width drops the last cosine.
        interleaved: Whether a sine stands beside its cosine.
        dtype: Of tables and results.
        table_rows: The first positions, whose rows are stored: a multiple of 64.
        scale: Multiplies every cosine and sine.
        phase: (pairs,) radians at position 0.
    """

    low_sin: Tensor  # (table_rows, pairs): sines of 0, 1, ...
    low_cos: Tensor
    mid_sin: Tensor  # (512, pairs): of 0, 64, ..., 32704
    mid_cos: Tensor
    high_sin: Tensor  # (512, pairs): of 0, 32768, ...
    high_cos: Tensor
    first: Tensor  # (table_rows, width): the rows of 0, 1, ...
    row_sin: Tensor  # (64, width): the sine, of the first 64 of these, that each output column is combined with
    row_cos: Tensor
    mid_row_sin: Tensor  # (512, width): the same of the middle digit
    mid_row_cos: Tensor
    high_row: Tensor  # (512, width): rows of 0, 32768, ...
    high_ahead: Tensor  # these a quarter of a circle ahead: a cosine where a sine stands, and its negative sine
    block: Final[int] = LOW
    radix: Final[int] = MID
    end: Final[int] = END
    table_rows: Final[int]
    stored_blocks: Final[int]
    width: Final[int]
    interleaved: Final[bool]
    by_block = BY_BLOCK
    __constants__ = ("count_dtype",)
    count_dtype = None

    def __init__(
        self,
        inv_freq: Floats,
        width: int,
        *,
        interleaved: bool,
        dtype: torch.dtype,
        table_rows: int = TABLE_ROWS,
        scale: float = 1.0,
        phase: Floats | None = None,
    ) -> None:
        super().__init__()
        self.width = width
        self.interleaved = interleaved
        self.table_rows = table_rows
        self.stored_blocks = table_rows // LOW
        self.scale = scale
        self.inv_freq, self.phase = inv_freq, phase  # arrays: what is stored is held against them
        self.half_safe = too_small(abs(scale))
        # the table, and a row more; a block and a part of one behind it
        lengths = (table_rows, table_rows + 1, table_rows + LOW + 2)
        self.probes = Probes(lengths=lengths, positions=EVERY_ROW)
        for name, rows, step in self._digits():
            # Every row is a sum of products with one factor from the lowest digit: scaling those scales all, and
            # their phase is that of all.
            lowest = name == "low"
            sin, cos = waves(step * np.arange(rows), inv_freq, scale if lowest else 1.0, phase if lowest else None)
            self.register_buffer(f"{name}_sin", sin.to(dtype), persistent=False)
            self.register_buffer(f"{name}_cos", cos.to(dtype), persistent=False)
            for laid, even, odd in _columns(name, sin.to(dtype), cos.to(dtype)):
                self.register_buffer(laid, arrange(even, odd, interleaved, width).contiguous(), persistent=False)

    def forward(self, positions: Tensor, width: int) -> Tensor:
        """Return the rows at int64 positions: (...) -> (..., width)."""
        check_width(width, self.width)
        cos, sin = self.cos_sin(positions)
        return arrange(sin, cos, self.interleaved, self.width)

    def cos_sin(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines: (...) -> twice (..., pairs)."""
        # Positions out of range are moved beyond the end first: then every quotient is a plain integer division.
        positions = index_or_end(positions, self.end)
        blocks = positions // self.block
        if self.stored_blocks > 1:
            blocks = blocks * (blocks - (self.stored_blocks - 1)).clamp(0, 1)  # 0 for all that the table has
            row = positions - blocks * self.block
        else:
            row = positions % self.block
        a_sin, a_cos = self.block_starts(blocks)
        b_sin, b_cos = take(self.low_sin, row, self.end), take(self.low_cos, row, self.end)
        return a_cos * b_cos - a_sin * b_sin, a_sin * b_cos + a_cos * b_sin  # cos(a + b), sin(a + b)

    def arange(self, length: int, width: int) -> Tensor:
        """Return the rows of positions 0..length-1: (1, length, width)."""
        check_width(width, self.width)
        check_length(length, self.end)
        stored = smaller(length, self.table_rows)
        more = length - stored
        # blocks behind the table, but for the last, of which only the rest is needed
        whole = unseen(larger(more - 1, 0) // self.block, self.end)
        rest = unseen(more - whole * self.block, self.block)
        first, behind = self.stored_blocks, self.stored_blocks + 1 + whole
        blocks = torch.arange(first, behind, dtype=self.count_dtype, device=self.low_sin.device).unsqueeze(1)
        high, mid = blocks // self.radix, blocks % self.radix
        # With (s c) as a row, (s c) row_cos + (c -s) row_sin is (sin(a + b), cos(a + b)): (blocks, 1, width) each.
        a, ahead = take(self.high_row, high, self.end), take(self.high_ahead, high, self.end)
        b_sin, b_cos = take(self.mid_row_sin, mid, self.end), take(self.mid_row_cos, mid, self.end)
        a, ahead = a * b_cos + ahead * b_sin, ahead * b_cos - a * b_sin
        in_blocks = a[:-1] * self.row_cos + ahead[:-1] * self.row_sin  # (whole, 64, width)
        in_part = a[-1] * self.row_cos[:rest] + ahead[-1] * self.row_sin[:rest]  # (rest, width)
        return torch.cat([self.first[:stored], in_blocks.flatten(0, 1), in_part]).unsqueeze(0)

    def block_starts(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines of 64 * index: (...) -> twice (..., pairs)."""
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
        """Return the table of the first rows, and those of both digits of a block's number."""
        arrays = {name: getattr(self, name) for name in DIGITS}
        axes = (0,) * int(self.low_sin.shape[1])
        layout = layout_of(self.interleaved)
        return Tables("digits", arrays, axes, self.width, layout, END, (self.block, self.radix))

    def stored_rows(self) -> Iterator[StoredRows]:
        """Yield the rows of all tables, and of the columns that the first rows are laid out in."""
        for name, rows, step in self._digits():
            scale, phase = (self.scale, self.phase) if name == "low" else (1.0, None)
            sin, cos = circular(step * np.arange(rows), self.inv_freq, scale, 0.0 if phase is None else phase)
            allowed = rounded(largest_angle(step * rows, self.inv_freq, phase), scale)
            yield StoredRows(f"{name}_sin", sin, allowed)
            yield StoredRows(f"{name}_cos", cos, allowed)
            columns = partial(laid_out, interleaved=self.interleaved, width=self.width)
            for laid, even, odd in _columns(name, sin, cos):
                yield StoredRows(laid, columns(even, odd), allowed)

    def _digits(self) -> tuple[tuple[str, int, int], ...]:
        """Return the names of tables, their rows, and the positions from one row to the next."""
        return ("low", self.table_rows, 1), ("mid", MID, LOW), ("high", HIGH, LOW * MID)


@overload
def _columns(name: str, sin: Tensor, cos: Tensor) -> tuple[tuple[str, Tensor, Tensor], ...]: ...
@overload
def _columns(name: str, sin: Floats, cos: Floats) -> tuple[tuple[str, Floats, Floats], ...]: ...
def _columns(name: str, sin: Any, cos: Any) -> tuple[tuple[str, Any, Any], ...]:
    """Return by name what is laid out as rows, of the sines and cosines of a part: even columns, then odd ones."""
    if name == "low":
        return ("first", sin, cos), ("row_sin", sin[:LOW], sin[:LOW]), ("row_cos", cos[:LOW], cos[:LOW])
    if name == "mid":
        return ("mid_row_sin", sin, sin), ("mid_row_cos", cos, cos)
    return ("high_row", sin, cos), ("high_ahead", cos, -sin)


def unseen(size: int, most: int) -> int:
    """Return a size, of which torch.export sees no more than that it is not negative, and no larger than another.

    A size that is 0 in the traced call would keep the graph to calls in which it is.
    """
    return size if torch.jit.is_scripting() else _unseen(size, most)  # type: ignore[attr-defined]


def _unseen(size: int, most: int) -> int:
    if not torch.compiler.is_exporting():
        return size
    hidden: int = torch.scalar_tensor(size, dtype=torch.int64).item()  # type: ignore[assignment]
    torch._check(hidden >= 0)
    torch._check(hidden <= most)
    return hidden


def larger(size: int, other: int) -> int:
    """Return the larger of two sizes."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return max(size, other)
    maximum: int = torch.sym_max(size, other)
    return maximum


def smaller(size: int, other: int) -> int:
    """Return the smaller of two sizes."""
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        return min(size, other)
    minimum: int = torch.sym_min(size, other)
    return minimum
