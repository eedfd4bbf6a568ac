"""Biases of attention within a window: a number for each head, and each difference of two places' rows and columns.

Two places of a window differ by 1 - height .. height - 1 rows, and likewise in columns. The table has an entry for each
pair of differences: (2 height - 1) (2 width - 1) of them. Places i and j have the entry
(row_i - row_j + height - 1) (2 width - 1) + column_i - column_j + width - 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from posenc.arithmetic import added
from posenc.call import Formula
from posenc.encoding import SAME_BITS, CaseLike, Encoding, Probes, Tolerance, no_tables, too_small
from posenc.lookup import take
from posenc.maker import Claims, Join, encoding
from posenc.memory import check_room
from posenc.ports import BATCH, Axis, Integers, Port, fixed
from posenc.spec import Spec, UnsupportedSpec
from posenc.where import Where

Sides = tuple[int, int]
"""Rows and columns of a window."""
NO_TABLES = "its table is of differences of rows and columns, not of positions"


class FixedWindow(nn.Module):
    """A table of differences, and its row for each pair of places in a window of a fixed size."""

    index: Tensor  # (tokens, tokens)

    def __init__(self, table: Tensor, index: Integers, dtype: torch.dtype) -> None:
        super().__init__()
        self.table = nn.Parameter(table)
        self.dtype = dtype
        self.register_buffer("index", torch.from_numpy(index), persistent=False)

    def bias(self) -> Tensor:
        """Return the bias in the dtype of the table."""
        return by_head(self.table, self.index)


class WindowBias(FixedWindow):
    """The bias of a window of a fixed size."""

    def forward(self) -> Tensor:
        """Return the bias: (1, heads, tokens, tokens)."""
        return self.bias().to(self.dtype)


class BiasedScores(FixedWindow):
    """Scores with the bias of a window of a fixed size."""

    def forward(self, scores: Tensor) -> Tensor:
        """Return biased scores: (batch, heads, tokens, tokens) -> the same."""
        return added(scores, self.bias())


def by_head(table: Tensor, index: Tensor) -> Tensor:
    """Return the numbers at indices, by head: (rows, heads), (tokens, tokens) -> (1, heads, tokens, tokens)."""
    # (tokens, tokens, heads) -> (1, heads, tokens, tokens)
    return take(table, index, table.shape[0]).permute(2, 0, 1).unsqueeze(0)


def indices(sides: Sides) -> Integers:
    """Return the entry of the window's table for each pair of places: (tokens, tokens)."""
    height, width = sides
    return np.asarray(differences(height, width, 2 * width - 1, torch.device("cpu")))


def differences(height: int, width: int, across: int, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return the entry of a table for each pair of places: (tokens, tokens).

    Args:
        height: Rows of the window.
        width: Columns of the window.
        across: How many entries one difference of rows has; at least as many as there are differences of columns.
        device: Where the table is.
        dtype: Of the entries' numbers, where it is not int64.
    """
    rows = torch.arange(height, dtype=dtype, device=device).unsqueeze(1) * across
    place = (rows + torch.arange(width, dtype=dtype, device=device)).flatten()  # (height, width) -> (tokens,)
    return place.unsqueeze(1) - place + ((height - 1) * across + width - 1)


def sides_of(name: str, numbers: int | tuple[int, ...], least: int = 1) -> Sides:
    """Return rows and columns from one number for both, or from two numbers; raise ValueError for any other."""
    sides = (numbers,) if isinstance(numbers, int) else numbers
    if len(sides) > 2 or min(sides) < least:
        words = ",".join(map(str, sides))
        raise ValueError(f"{name} must be rows and columns of at least {least}, or one number for both, got {words}")
    return sides[0], sides[-1]


def check_bias(spec: Spec, heads: int, tokens: int) -> None:
    """Raise ValueError without memory for the bias of so many tokens."""
    check_room("a bias", (heads + 2, tokens, tokens), spec.angle_dtype)  # and its indices, of int64


def check_any_size(*, scores: bool) -> None:
    """Raise UnsupportedSpec for scores that would be biased by the bias of a window of any size."""
    if scores:
        raise UnsupportedSpec("output=scores does not say how wide a window is: it takes --baked, or output=bias")


def encode(spec: Spec, table: Tensor, index: Integers, formula: Formula, *, scores: bool, off: float = 0.0) -> Encoding:
    """Return the encoding of a window of a fixed size: its bias, without any input, or scores with the bias.

    Args:
        spec: The dtype of the output.
        table: A bias for each difference, (rows, heads), in the dtype of angles.
        index: The row of the table for each pair of places: (tokens, tokens).
        formula: A call -> the output in float64.
        scores: Whether scores come in.
        off: How far the table may be from the formula.
    """
    dtype, heads, tokens = getattr(torch, spec.torch_dtype), fixed(table.shape[1], "heads"), fixed(len(index), "length")
    bias = Port("bias", (fixed(1, "batch"), heads, tokens, tokens), spec.torch_dtype)
    square = Port("scores", (BATCH, heads, tokens, tokens), spec.torch_dtype)
    claims = Claims(
        error=lambda case: Tolerance(atol=off),
        graph_error=lambda case: SAME_BITS,
        tables=no_tables(NO_TABLES),
        probes=Probes(),
        half_safe=too_small(float(table.abs().max())),
    )
    if scores:
        module: nn.Module = BiasedScores(table, index, dtype)
        join = Join("window", module, (square,), (replace(square, name="biased"),), added=True)
    else:
        join = Join("window", WindowBias(table, index, dtype), (), (bias,))
    return encoding(spec, Where(spec.positions), claims, join, formula)


@dataclass(frozen=True)
class AnySizeBias:
    """A source of the bias of a window of any size.

    Args:
        module: x (batch, height, width, channels) -> the bias (1, heads, tokens, tokens).
        heads: Heads of the bias.
        formula: A call -> the bias in float64.
        off: Sides -> how far a bias may be from the formula; it grows with either side.
        lengths: Sides that must be tried.
        before: Tokens before the places.
        half_safe: As in Encoding.
    """

    module: nn.Module
    heads: int
    formula: Formula
    off: Callable[[Sides], float]
    lengths: tuple[int, ...] = ()
    before: int = 0
    half_safe: str = ""


def encode_any_size(spec: Spec, made: AnySizeBias) -> Encoding:
    """Return the encoding of a window as large as each x (batch, height, width, channels): its bias."""
    names = f"{made.before}+height*width" if made.before else "height*width"
    height, width, tokens = Axis("height", "grid"), Axis("width", "grid"), Axis(names, "length")
    x = Port("x", (BATCH, height, width, Axis("channels", "features")), spec.torch_dtype)
    bias = Port("bias", (fixed(1, "batch"), fixed(made.heads, "heads"), tokens, tokens), spec.torch_dtype)

    def largest(case: CaseLike) -> float:
        side = case.max_position + 1  # the longer one
        return made.off((side, side))

    claims = Claims(
        error=lambda case: Tolerance(largest(case)),
        graph_error=lambda case: Tolerance(2 * largest(case)),
        tables=no_tables(NO_TABLES),
        probes=Probes(lengths=made.lengths),
        half_safe=made.half_safe,
    )
    join = Join("window", made.module, (x,), (bias,))
    return encoding(spec, Where(spec.positions), claims, join, made.formula)
