"""Rows returned, or added to x: a forward for each set of names that a call may have.

A source of rows is a module called as `source(positions, width)`, with `arange(length, width)` for positions
0..length-1: a sincos method, or a learned table.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.encoding import RowSource
from posenc.lookup import check_same, counted, exactly
from posenc.maker import Join
from posenc.ports import BATCH, SEQ, Axis, Port, fixed
from posenc.spec import Spec, UnsupportedSpec
from posenc.where import Where


@dataclass(frozen=True)
class RowsOutput:
    """What becomes of rows.

    Args:
        kind: "add" for x + rows, "rows" for the rows at the positions, "table" for all of them.
        width: Features of a row; None takes them from each x.
        scale_x: What multiplies x before rows are added.
        scale: The factor that is already in the rows; tolerances alone read it.
        ends: Where each of several tables ends; a token then has a position in each.
    """

    kind: str
    width: int | None
    scale_x: float = 1.0
    scale: float = 1.0
    ends: tuple[int, ...] = ()


class Rows(nn.Module):
    """Rows of a source, returned or added to x: what the ways to give positions share."""

    add: Final[bool]
    scales: Final[bool]
    offset: Final[int]  # of positions from a mask; annotations of a subclass would hide all of these
    length: Final[int]  # of a whole table
    width: Final[int]  # of rows without x
    scale_x: Tensor  # a buffer, as a graph would hold Python's number in float32
    __constants__ = ("count_dtype",)
    count_dtype = None  # posenc.counting sets it

    def __init__(self, source: RowSource, spec: Spec, output: RowsOutput) -> None:
        super().__init__()
        self.source = source
        self.add = output.kind == "add"
        self.dtype = getattr(torch, spec.torch_dtype)
        self.offset = spec.position_offset
        self.length = spec.max_len
        self.width = output.width or 0  # 0 where each x says it
        self.scales = output.scale_x != 1.0
        if self.scales:
            scale_x = torch.tensor(output.scale_x, dtype=getattr(torch, spec.angle_dtype))
            self.register_buffer("scale_x", scale_x, persistent=False)

    def join(self, x: Tensor, rows: Tensor) -> Tensor:
        """Add rows to x, in the dtype of the rows, and round to that of x last; or return the rows, rounded."""
        if not self.add:
            return rows.to(self.dtype)
        if self.scales:
            # One rounding to the dtype of x, after the product and the sum.
            return (x.to(rows.dtype) * self.scale_x + rows).to(x.dtype)
        return added(x, rows)


class ImplicitRows(Rows):
    """Positions 0..seq-1, from the shape of x."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim) -> the same; or the rows alone: (1, seq, dim)."""
        rows: Tensor = self.source.arange(x.shape[1], x.shape[2])
        if not self.add:
            rows = exactly(rows, x.shape[1])  # a sum refuses too few rows by itself
        return self.join(x, rows)


class OffsetRows(Rows):
    """Positions start..start+seq-1, as when a KV cache holds the first `start` tokens."""

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim), start (1,) -> (batch, seq, dim); or the rows alone: (1, seq, dim)."""
        positions = start + torch.arange(x.shape[1], dtype=self.count_dtype, device=x.device)
        # (seq,) -> (seq, dim) -> (1, seq, dim)
        return self.join(x, self.source(positions, x.shape[2]).unsqueeze(0))


class ExplicitRows(Rows):
    """Positions of each token of each sequence, as with left padding or packed sequences."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim), positions (batch, seq) or (tables, batch, seq) -> (batch, seq, dim)."""
        check_same(x.shape[1], positions.shape[-1])
        return self.join(x, self.source(positions, x.shape[2]))


class MaskRows(Rows):
    """Positions counted from an attention mask: padding on the left or the right moves no token."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim), mask (batch, seq) of 1 and 0 -> (batch, seq, dim)."""
        check_same(x.shape[1], mask.shape[1])
        return self.join(x, self.source(counted(mask, self.offset, self.count_dtype), x.shape[2]))


class RowsAt(Rows):
    """Rows at positions, with no x."""

    def forward(self, positions: Tensor) -> Tensor:
        """Return the rows: (batch, seq) or (tables, batch, seq) -> (batch, seq, dim)."""
        rows: Tensor = self.source(positions, self.width)
        return rows.to(self.dtype)


class RowsFromMask(Rows):
    """Rows at positions counted from an attention mask, with no x."""

    def forward(self, mask: Tensor) -> Tensor:
        """Return the rows: mask (batch, seq) of 1 and 0 -> (batch, seq, dim)."""
        rows: Tensor = self.source(counted(mask, self.offset, self.count_dtype), self.width)
        return rows.to(self.dtype)


class WholeTable(Rows):
    """The whole table, with no input."""

    def forward(self) -> Tensor:
        """Return the table: (max_len, dim)."""
        rows: Tensor = self.source.arange(self.length, self.width)  # (1, max_len, dim)
        return rows[0].to(self.dtype)


def join_rows(source: RowSource, where: Where, spec: Spec, output: RowsOutput) -> Join:
    """Return the join that an output asks for.

    Raises:
        UnsupportedSpec: The output has no such form.
    """
    if output.kind == "table":
        if spec.mode == "dynamic" or where.positions != "implicit" or output.width is None:
            takes = "--baked, implicit positions and a fixed d_model"
            raise UnsupportedSpec(f"output=table is a constant: it takes {takes}")
        return _alone(WholeTable(source, spec, output), spec, fixed(spec.max_len, "length"), fixed(output.width))
    if output.kind == "rows" and where.positions in ("explicit", "mask"):
        if output.width is None:
            positions = f"{where.positions} positions"
            raise UnsupportedSpec(f"output=rows at {positions} has no x to take d_model=auto from: give a number")
        kind = where.pick(explicit=RowsAt, mask=RowsFromMask)
        return _alone(kind(source, spec, output), spec, BATCH, SEQ, fixed(output.width))
    module = where.pick(implicit=ImplicitRows, offset=OffsetRows, explicit=ExplicitRows, mask=MaskRows)(
        source, spec, output
    )
    # The axis of x has any size where each x says how wide a row is.
    dim = Axis("dim", "features") if output.width is None else fixed(output.width)
    x = Port("x", (BATCH, *where.places, dim), spec.torch_dtype)
    return join_x("additive", module, x, add=output.kind == "add")


def join_x(family: str, module: nn.Module, x: Port, *, add: bool) -> Join:
    """Return the join of rows with x, a row for each of its places: x + rows, or the rows alone, a batch of one."""
    y = Port("y", (x.axes[0] if add else fixed(1, "batch"), *x.axes[1:]), x.dtype)
    return Join(family, module, (x,), (y,), added=add)


def _alone(module: nn.Module, spec: Spec, *axes: Axis) -> Join:
    return Join("additive", module, (), (Port("y", axes, spec.torch_dtype),))
