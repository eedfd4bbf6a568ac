"""Encodings that are rows: one a position, added to x or returned.

A source of rows is a module called as `source(positions, width)`, with `arange(length, width)` for positions
0..length-1: a sincos method, or a learned table.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.call import Formula
from posenc.encoding import Encoding, RowSource, Tolerance, ToleranceOf, eps
from posenc.lookup import check_same, counted, exactly
from posenc.maker import Claims, Join, claims_of, encoding
from posenc.ports import BATCH, SEQ, Axis, Port, fixed
from posenc.spec import Spec, UnsupportedSpec
from posenc.where import Where, tokens


@dataclass(frozen=True)
class Output:
    """What an additive encoding returns: kind "add", x + rows, "rows" the rows at the positions, "table" all of them.

    width: features of a row; None takes them from each x.
    scale_x: what multiplies x before rows are added. scale: what the source has multiplied its rows by.
    ends: where each of several tables ends; a token has one position a table then.
    """

    kind: str
    width: int | None
    scale_x: float = 1.0
    scale: float = 1.0
    ends: tuple[int, ...] = ()


class Additive(nn.Module):
    """Rows of a source, added to x, or returned: what the ways to give positions share."""

    add: Final[bool]
    offset: Final[int]  # of positions from a mask; a subclass with annotations of its own would hide these
    scales: Final[bool]
    scale_x: Tensor  # a buffer, as a graph would hold Python's number in float32

    def __init__(self, source: RowSource, spec: Spec, output: Output) -> None:
        super().__init__()
        self.source = source
        self.add = output.kind == "add"
        self.dtype = getattr(torch, spec.torch_dtype)
        self.offset = spec.position_offset
        self.scales = output.scale_x != 1.0
        if self.scales:
            scale_x = torch.tensor(output.scale_x, dtype=getattr(torch, spec.angle_dtype))
            self.register_buffer("scale_x", scale_x, persistent=False)

    def finish(self, x: Tensor, rows: Tensor) -> Tensor:
        """Add rows to x, in what rows are in, and round to the dtype of x last; or return the rows, rounded."""
        if self.add:
            if self.scales:
                return (x.to(rows.dtype) * self.scale_x + rows).to(x.dtype)
            return added(x, rows)
        return rows.to(self.dtype)


class Implicit(Additive):
    """Positions 0..seq-1, from the shape of x."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim) -> the same; or the rows alone: (1, seq, dim)."""
        rows: Tensor = self.source.arange(x.shape[1], x.shape[2])
        if not self.add:
            rows = exactly(rows, x.shape[1])
        return self.finish(x, rows)


class Offset(Additive):
    """Positions start..start+seq-1, as when a KV cache holds the first `start` tokens."""

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim), start (1,) -> (batch, seq, dim); or the rows alone: (1, seq, dim)."""
        positions = start + torch.arange(x.shape[1], device=x.device)
        return self.finish(x, self.source(positions, x.shape[2]).unsqueeze(0))


class Explicit(Additive):
    """Positions of each token of each sequence, as with left padding or packed sequences."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim), positions (batch, seq) or (tables, batch, seq) -> (batch, seq, dim)."""
        check_same(x.shape[1], positions.shape[-1])
        return self.finish(x, self.source(positions, x.shape[2]))


class FromMask(Additive):
    """Positions counted from an attention mask: padding on the left or the right moves no token."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim), mask (batch, seq) of 1 and 0 -> (batch, seq, dim)."""
        check_same(x.shape[1], mask.shape[1])
        return self.finish(x, self.source(counted(mask, self.offset), x.shape[2]))


class Rows(nn.Module):
    """Rows at positions, with no x."""

    width: Final[int]
    offset: Final[int]  # of positions from a mask

    def __init__(self, source: RowSource, spec: Spec, width: int) -> None:
        super().__init__()
        self.source = source
        self.width = width
        self.offset = spec.position_offset
        self.dtype = getattr(torch, spec.torch_dtype)

    def forward(self, positions: Tensor) -> Tensor:
        """Return the rows: (batch, seq) or (tables, batch, seq) -> (batch, seq, dim)."""
        rows: Tensor = self.source(positions, self.width)
        return rows.to(self.dtype)


class RowsFromMask(Rows):
    """Rows at positions counted from an attention mask, with no x."""

    def forward(self, mask: Tensor) -> Tensor:
        """Return the rows: mask (batch, seq) of 1 and 0 -> (batch, seq, dim)."""
        rows: Tensor = self.source(counted(mask, self.offset), self.width)
        return rows.to(self.dtype)


class WholeTable(nn.Module):
    """The whole table, with no input."""

    length: Final[int]
    width: Final[int]

    def __init__(self, source: RowSource, spec: Spec, width: int) -> None:
        super().__init__()
        self.source = source
        self.length = spec.max_len
        self.width = width
        self.dtype = getattr(torch, spec.torch_dtype)

    def forward(self) -> Tensor:
        """Return the table: (max_len, dim)."""
        rows: Tensor = self.source.arange(self.length, self.width)
        return rows[0].to(self.dtype)


def encode(source: RowSource, spec: Spec, output: Output, *, formula: Formula) -> Encoding:
    """Return the encoding that a source of rows makes with the positions and the output asked for.

    formula: a call -> the output in float64.
    Raises UnsupportedSpec for a combination that has no meaning.
    """
    where = tokens(spec, source.end, max(1, len(output.ends)), output.ends)
    join = _whole if output.kind == "table" else _rows if _has_no_x(spec, output) else _with_x
    return encoding(spec, where, _claims(source, spec, output), join(source, spec, output, where), formula)


def _claims(source: RowSource, spec: Spec, output: Output) -> Claims:
    """Return what a source says of its rows, beside an x that is scaled."""
    claims = claims_of(source, tables=lambda: replace(source.tables(), scale_x=output.scale_x), probes=source.probes)
    of_x = _of_scaled_x(spec, output)

    def scaled(tolerance: ToleranceOf) -> ToleranceOf:
        return lambda case: _scaled(tolerance(case), output.scale)

    error = scaled(claims.error)
    return replace(claims, error=lambda case: error(case).plus(of_x), graph_error=scaled(claims.graph_error))


def _scaled(tolerance: Tolerance, scale: float) -> Tolerance:
    """Return what rows times a scale may be off by: what they are off by grows with it, their grain to its binade."""
    return replace(tolerance, atol=tolerance.atol * 2.0 ** math.ceil(math.log2(abs(scale))))


def _of_scaled_x(spec: Spec, output: Output) -> Tolerance:
    """Return what x times its scale costs: the scale is rounded, and the product, which is at most y and a row."""
    if output.scale_x == 1.0:
        return Tolerance()
    grain = eps(spec.angle_dtype)
    return Tolerance(rtol=grain, atol=grain * abs(output.scale))


def _has_no_x(spec: Spec, output: Output) -> bool:
    return spec.positions in ("explicit", "mask") and output.kind == "rows"


def _whole(source: RowSource, spec: Spec, output: Output, where: Where) -> Join:
    if spec.mode == "dynamic" or spec.positions != "implicit" or output.width is None:
        raise UnsupportedSpec("output=table is a constant: it takes --baked, implicit positions and a fixed d_model")
    y = Port("y", (fixed(spec.max_len, "length"), fixed(output.width)), spec.torch_dtype)
    return Join("additive", WholeTable(source, spec, output.width), (), (y,))


def _rows(source: RowSource, spec: Spec, output: Output, where: Where) -> Join:
    if output.width is None:
        positions = f"{spec.positions} positions"
        raise UnsupportedSpec(f"output=rows at {positions} has no x to take d_model=auto from: give a number")
    y = Port("y", (BATCH, SEQ, fixed(output.width)), spec.torch_dtype)
    kind = RowsFromMask if spec.positions == "mask" else Rows
    return Join("additive", kind(source, spec, output.width), (), (y,))


WAYS: dict[str | None, type[Additive]] = {
    "implicit": Implicit,
    "offset": Offset,
    "explicit": Explicit,
    "mask": FromMask,
}


def _with_x(source: RowSource, spec: Spec, output: Output, where: Where) -> Join:
    dim = Axis("dim", "features") if output.width is None else fixed(output.width)
    x = Port("x", (BATCH, *where.places, dim), spec.torch_dtype)
    y = Port("y", (BATCH if output.kind == "add" else fixed(1, "batch"), *where.places, dim), spec.torch_dtype)
    module = WAYS[where.positions](source, spec, output)
    return Join("additive", module, (x,), (y,), added=output.kind == "add")
