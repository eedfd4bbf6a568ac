"""Modules that ask a source for rows at positions told in one of three ways, and add them to x or return them.

A source is a module called as `source(positions, width) -> (..., width)` with a method `span(length, width) ->
(1, length, width)`: a lowering of `posenc.sincos.angle_addition`, or a learned table.
"""

from typing import Any, Final

import torch
from torch import Tensor, nn

from posenc.lookup import exactly
from posenc.scheme import Form, Port


def finish(x: Tensor, rows: Tensor, add: bool, dtype: torch.dtype) -> Tensor:
    """Add rows to x, in what rows are in, and round to the dtype of x last; or return the rows, rounded to `dtype`."""
    if add:
        return (x.to(rows.dtype) + rows).to(x.dtype)
    return rows.to(dtype)


class Implicit(nn.Module):
    """Positions 0..seq-1, from the shape of x."""

    add: Final[bool]

    def __init__(self, source: nn.Module, *, add: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.add = add
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim) -> the same; or the rows alone: (1, seq, dim)."""
        rows: Tensor = self.source.span(x.shape[1], x.shape[2])  # type: ignore[operator]
        if not self.add:
            rows = exactly(rows, x.shape[1])
        return finish(x, rows, self.add, self.dtype)


class Offset(nn.Module):
    """Positions start..start+seq-1, as when a KV cache holds the first `start` tokens."""

    add: Final[bool]

    def __init__(self, source: nn.Module, *, add: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.add = add
        self.dtype = dtype

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim), start (1,) -> (batch, seq, dim); or the rows alone: (1, seq, dim)."""
        positions = start + torch.arange(x.shape[1], device=x.device)
        return finish(x, self.source(positions, x.shape[2]).unsqueeze(0), self.add, self.dtype)


class Explicit(nn.Module):
    """Positions of each token of each sequence, as with left padding or packed sequences."""

    add: Final[bool]

    def __init__(self, source: nn.Module, *, add: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.add = add
        self.dtype = dtype

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return x + rows: (batch, seq, dim), positions (batch, seq) -> (batch, seq, dim)."""
        return finish(x, self.source(positions, x.shape[2]), self.add, self.dtype)


class Rows(nn.Module):
    """Rows at given positions, with no x."""

    width: Final[int]

    def __init__(self, source: nn.Module, *, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.width = width
        self.dtype = dtype

    def forward(self, positions: Tensor) -> Tensor:
        """Return the rows: (batch, seq) -> (batch, seq, dim)."""
        rows: Tensor = self.source(positions, self.width)
        return rows.to(self.dtype)


class Whole(nn.Module):
    """The whole table, with no input."""

    length: Final[int]
    width: Final[int]

    def __init__(self, source: nn.Module, *, length: int, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.source = source
        self.length = length
        self.width = width
        self.dtype = dtype

    def forward(self) -> Tensor:
        """Return the table: (max_len, dim)."""
        rows: Tensor = self.source.span(self.length, self.width)  # type: ignore[operator]
        return rows[0].to(self.dtype)


def additive(
    source: nn.Module, form: Form, output: str, width: int | None, limit: int | None
) -> tuple[nn.Module, tuple[Port, ...], tuple[Port, ...]]:
    """Wrap a source as an additive encoding with the ports of its form: module, inputs, outputs.

    output: "add", "rows" or "table"; width: None for a dynamic feature axis; limit: positions from here on are refused.
    Raises ValueError for a combination that has no meaning.
    """
    kind: Any
    dtype = getattr(torch, form.torch_dtype)
    dim: int | str = "dim" if width is None else width
    x = Port("x", ("batch", "seq", dim), form.torch_dtype)
    start = Port("start", (1,), "int64", below=limit)
    positions = Port("positions", ("batch", "seq"), "int64", below=limit)
    batched = Port("y", ("batch", "seq", dim), form.torch_dtype)
    if output == "table":
        if form.mode == "dynamic" or form.positions != "implicit" or width is None:
            raise ValueError("output=table is a constant: it takes --baked, implicit positions and a fixed d_model")
        module: nn.Module = Whole(source, length=form.max_len, width=width, dtype=dtype)
        return module, (), (Port("y", (form.max_len, width), form.torch_dtype),)
    add = output == "add"
    if form.positions == "explicit" and not add:
        if width is None:
            raise ValueError("output=rows at explicit positions has no x to take d_model=auto from: give a number")
        return Rows(source, width=width, dtype=dtype), (positions,), (batched,)
    inputs = {"implicit": (x,), "offset": (x, start), "explicit": (x, positions)}[form.positions or "implicit"]
    kind = {"implicit": Implicit, "offset": Offset, "explicit": Explicit}[form.positions or "implicit"]
    result = batched if add else Port("y", (1, "seq", dim), form.torch_dtype)
    return kind(source, add=add, dtype=dtype), inputs, (result,)
