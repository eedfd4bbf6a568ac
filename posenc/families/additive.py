"""Encodings that are rows: one a position, added to x or returned.

A source of rows is a module called as `source(positions, width)`, with `arange(length, width)` for positions
0..length-1: a sincos method, or a learned table.
"""

from dataclasses import dataclass, replace
from typing import Final

import torch
from torch import Tensor, nn

from posenc.encoding import Encoding, Reference, RowSource, Tolerance, rounding
from posenc.lookup import exactly
from posenc.ports import Port
from posenc.spec import Spec, UnsupportedSpec


class Additive(nn.Module):
    """Rows of a source, added to x, or returned: what the ways to give positions share."""

    add: Final[bool]

    def __init__(self, source: RowSource, *, add: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.add = add
        self.dtype = dtype

    def finish(self, x: Tensor, rows: Tensor) -> Tensor:
        """Add rows to x, in what rows are in, and round to the dtype of x last; or return the rows, rounded."""
        if self.add:
            return (x.to(rows.dtype) + rows).to(x.dtype)
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
        """Return x + rows: (batch, seq, dim), positions (batch, seq) -> (batch, seq, dim)."""
        return self.finish(x, self.source(positions, x.shape[2]))


class Rows(nn.Module):
    """Rows at positions, with no x."""

    width: Final[int]

    def __init__(self, source: RowSource, *, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.width = width
        self.dtype = dtype

    def forward(self, positions: Tensor) -> Tensor:
        """Return the rows: (batch, seq) -> (batch, seq, dim)."""
        rows: Tensor = self.source(positions, self.width)
        return rows.to(self.dtype)


class WholeTable(nn.Module):
    """The whole table, with no input."""

    length: Final[int]
    width: Final[int]

    def __init__(self, source: RowSource, *, length: int, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.length = length
        self.width = width
        self.dtype = dtype

    def forward(self) -> Tensor:
        """Return the table: (max_len, dim)."""
        rows: Tensor = self.source.arange(self.length, self.width)
        return rows[0].to(self.dtype)


@dataclass(frozen=True)
class Output:
    """What an additive encoding returns: kind "add", x + rows, "rows" the rows at the positions, "table" all of them.

    width: features of a row; None takes them from each x.
    """

    kind: str
    width: int | None


@dataclass(frozen=True)
class Wrapped:
    """A module that takes positions in one of the ways, with its ports."""

    module: nn.Module
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def encode(source: RowSource, spec: Spec, output: Output, *, reference: Reference) -> Encoding:
    """Return the encoding that a source of rows makes with the positions and the output asked for.

    Raises UnsupportedSpec for a combination that has no meaning.
    """
    wrap = _whole if output.kind == "table" else _rows if _has_no_x(spec, output) else _with_x
    wrapped = wrap(source, spec, output)
    rounded = rounding(spec, output.kind == "add")

    def tolerance(max_position: int) -> Tolerance:
        return source.tolerance(max_position).plus(rounded)

    def eager_tolerance(max_position: int) -> Tolerance:
        allowed = source.eager_tolerance(max_position)
        return allowed if allowed.bits else replace(allowed, rtol=2 * rounded.rtol, ulps=2 * rounded.ulps)

    return Encoding(
        family="additive",
        module=wrapped.module,
        inputs=wrapped.inputs,
        outputs=wrapped.outputs,
        reference=reference,
        tolerance=tolerance,
        eager_tolerance=eager_tolerance,
        tables=source.tables,
        positions=spec.positions,
        end=source.end,
        probes=source.probes,
    )


def _has_no_x(spec: Spec, output: Output) -> bool:
    return spec.positions == "explicit" and output.kind == "rows"


def _whole(source: RowSource, spec: Spec, output: Output) -> Wrapped:
    if spec.mode == "dynamic" or spec.positions != "implicit" or output.width is None:
        raise UnsupportedSpec("output=table is a constant: it takes --baked, implicit positions and a fixed d_model")
    module = WholeTable(source, length=spec.max_len, width=output.width, dtype=getattr(torch, spec.torch_dtype))
    return Wrapped(module, (), (Port("y", (spec.max_len, output.width), spec.torch_dtype),))


def _rows(source: RowSource, spec: Spec, output: Output) -> Wrapped:
    if output.width is None:
        raise UnsupportedSpec("output=rows at explicit positions has no x to take d_model=auto from: give a number")
    module = Rows(source, width=output.width, dtype=getattr(torch, spec.torch_dtype))
    y = Port("y", ("batch", "seq", output.width), spec.torch_dtype)
    return Wrapped(module, (_positions(source),), (y,))


def _with_x(source: RowSource, spec: Spec, output: Output) -> Wrapped:
    dim: int | str = "dim" if output.width is None else output.width
    x = Port("x", ("batch", "seq", dim), spec.torch_dtype)
    add = output.kind == "add"
    y = Port("y", ("batch" if add else 1, "seq", dim), spec.torch_dtype)
    ways: dict[str | None, tuple[type[Additive], tuple[Port, ...]]] = {
        "implicit": (Implicit, (x,)),
        "offset": (Offset, (x, Port("start", (1,), "int64", source.end))),
        "explicit": (Explicit, (x, _positions(source))),
    }
    kind, inputs = ways[spec.positions]
    return Wrapped(kind(source, add=add, dtype=getattr(torch, spec.torch_dtype)), inputs, (y,))


def _positions(source: RowSource) -> Port:
    return Port("positions", ("batch", "seq"), "int64", source.end)
